//! The two files of a project, read and written.

use crate::rendering::bundler::{FileError, JsonnetFile, PackageSource};

fn read(text: &str) -> Result<JsonnetFile, FileError> {
    JsonnetFile::parse(text.as_bytes(), "jsonnetfile.json", "")
}

#[test]
fn a_file_is_written_as_jsonnet_bundler_writes_it() {
    assert_eq!(
        JsonnetFile::default().write(),
        "{\n  \"version\": 1,\n  \"dependencies\": [],\n  \"legacyImports\": true\n}\n"
    );
    let file = read(
        r#"{"legacyImports": false, "version": 1, "unknown": {}, "dependencies": [
            {"version": "<&>\u2028", "source": {"git": {"subdir": "/lib/", "remote": "https://github.com/org/c"}}, "name": "see"},
            {"source": {"local": {"directory": "./libs/a"}}, "version": "", "single": true, "sum": ""},
            {"version": "v2", "source": {"git": {"subdir": "lib/", "remote": "github.com/org/c.git"}}}
        ]}"#,
    )
    .unwrap();
    assert_eq!(
        file.write(),
        r#"{
  "version": 1,
  "dependencies": [
    {
      "source": {
        "local": {
          "directory": "./libs/a"
        }
      },
      "version": "",
      "single": true
    },
    {
      "source": {
        "git": {
          "remote": "https://github.com/org/c.git",
          "subdir": "lib/"
        }
      },
      "version": "v2"
    }
  ],
  "legacyImports": false
}
"#,
        "sorted by name, and of one name the last one counts in the place of the first"
    );
    let escaped = read(
        r#"{"version":1,"dependencies":[{"source":{"git":{"remote":"github.com/o/c"}},"version":"<&>\u2028"}]}"#,
    );
    assert!(
        escaped
            .unwrap()
            .write()
            .contains(r#""version": "\u003c\u0026\u003e\u2028""#)
    );
}

#[test]
fn the_older_form_is_read() {
    let file = read(
        r#"{"dependencies": [
            {"name": "cee", "source": {"git": {"remote": "https://github.com/org/c", "subdir": "./lib//a/"}}, "version": "v1"},
            {"name": "x", "source": {"local": {"directory": "libs/x"}}, "version": ""}
        ]}"#,
    )
    .unwrap();
    assert!(file.legacy_imports);
    let names: Vec<(String, String)> = file
        .dependencies
        .iter()
        .map(|dependency| (dependency.name(), dependency.legacy_name()))
        .collect();
    let expected = [("github.com/org/c/lib/a", "cee"), ("x", "x")];
    assert_eq!(
        names,
        expected.map(|(name, short)| (name.to_owned(), short.to_owned()))
    );
    assert_eq!(read("{}").unwrap(), JsonnetFile::default());
    assert_eq!(read("").unwrap(), JsonnetFile::default());
    assert_eq!(
        read(r#"{"version": 0, "dependencies": null}"#).unwrap(),
        JsonnetFile::default()
    );
}

#[test]
fn what_is_no_such_file_says_why() {
    for (text, why) in [
        (r#"{"version": 2}"#, "jsonnetfile version unknown, update drydock"),
        (
            r#"{"version": "1"}"#,
            "`jsonnetfile.json`: `version` is not a whole number",
        ),
        ("[]", "`jsonnetfile.json`: expected an object"),
        (
            r#"{"version": 1, "dependencies": [{}]}"#,
            "`jsonnetfile.json`: either git or local source is required",
        ),
        (
            r#"{"version": 1, "dependencies": [{"source": {"git": {"remote": "nonsense"}}}]}"#,
            "`jsonnetfile.json`: unable to parse git url `nonsense`",
        ),
        (
            r#"{"version": 1, "dependencies": [{"source": {"local": {"directory": "."}}}]}"#,
            "`jsonnetfile.json`: local dependency `.` names no directory",
        ),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), why, "{text}");
    }
    for text in ["{", "nonsense", r#"{"version": 1, "dependencies": {}}"#] {
        assert!(matches!(read(text), Err(FileError::Malformed { .. })), "{text}");
    }
    let deep = "[".repeat(100_000);
    assert!(matches!(read(&deep), Err(FileError::Malformed { .. })));
    let long = format!("{{\"version\": 1{}}}", " ".repeat(2 << 20));
    assert!(matches!(read(&long), Err(FileError::Malformed { .. })));
}

#[test]
fn a_local_name_is_the_last_component_of_where_it_leads() {
    let name = |project: &str, directory: &str| {
        let text = format!(
            r#"{{"version": 1, "dependencies": [{{"source": {{"local": {{"directory": "{directory}"}}}}, "version": ""}}]}}"#
        );
        let file = JsonnetFile::parse(text.as_bytes(), "jsonnetfile.json", project).unwrap();
        assert!(matches!(file.dependencies[0].source, PackageSource::Local(_)));
        file.dependencies[0].name()
    };
    assert_eq!(name("", "libs/x"), "x");
    assert_eq!(name("", "./libs/x/"), "x");
    assert_eq!(name("", "../y"), "y");
    assert_eq!(name("a/b", ".."), "a");
    assert_eq!(name("a/b", "."), "b");
    assert_eq!(name("a/b", "c/.."), "b");
}
