//! The content of an attachment as a `data:` URL, which several wire formats share.

use crate::base::model::Attachment;
use serde::{Serialize, Serializer};

/// An attachment as `data:image/png;base64,...`. The content is written without a copy of its own.
pub(super) struct DataUrl<'a>(pub(super) &'a Attachment);

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, content) = (self.0.media_type().name(), self.0.base64());
        serializer.collect_str(&format_args!("data:{name};base64,{content}"))
    }
}
