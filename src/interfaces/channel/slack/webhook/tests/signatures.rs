//! Tests of signatures: the requests that are accepted as Slack's own, and the answers to all others.

use super::*;

/// CI-24, CI-28
#[test]
fn the_documented_vector_is_accepted() {
    let headers: [(&str, &[u8]); 3] = [
        ("X-Slack-Request-Timestamp", b"1531420618"),
        ("X-Slack-Signature", DOCUMENTED_SIGNATURE.as_bytes()),
        ("Content-Type", b"application/x-www-form-urlencoded"),
    ];
    let received = slack().receive(&request(&headers, DOCUMENTED_BODY.as_bytes()), at(AT));
    assert!(matches!(received, Ok(Received::Inbound(_))), "{received:?}");
}

/// T11, T12, T13
#[test]
fn forty_ways_to_sign_wrongly_are_refused() {
    let body = br#"{"type":"url_verification","challenge":"x"}"#;
    let seconds = AT.to_string();
    let good = sign(SECRET, &seconds, body);
    let hex = good.strip_prefix("v0=").unwrap();
    let sha = format!("sha256={hex}");
    let long = format!("v0={}", "a".repeat(1 << 20));
    let signatures: Vec<String> = vec![
        String::new(),
        "v0".into(),
        "v0=".into(),
        hex.into(),
        sha.clone(),
        format!("v1={hex}"),
        format!("V0={hex}"),
        format!("v0 ={hex}"),
        format!("v0= {hex}"),
        format!("v0={hex} "),
        format!(" v0={hex}"),
        format!("v0={hex}\t"),
        format!("v0=0x{hex}"),
        format!("v0={hex}0"),
        format!("v0={hex}00"),
        good.chars().take(66).collect(),
        good.chars().take(65).collect(),
        good.chars().take(35).collect(),
        format!("v0=v0={hex}"),
        format!("v0={hex},v0={hex}"),
        format!("v0=\"{hex}\""),
        format!("v0={}", hex.replace(['0', '1', '2', '3'], "g")),
        format!("v0={}", hex.chars().rev().collect::<String>()),
        format!("v0={}", "0".repeat(64)),
        format!("v0={}", "f".repeat(64)),
        long,
        sign("another secret", &seconds, body),
        sign("", &seconds, body),
        sign(SECRET, "1531420619", body),
        sign(SECRET, "", body),
        sign(SECRET, &seconds, b""),
        sign(
            SECRET,
            &seconds,
            b"{\"type\":\"url_verification\",\"challenge\":\"x\"} ",
        ),
    ];
    let mut table: Vec<Vec<(&str, &[u8])>> = signatures
        .iter()
        .map(|signature| {
            vec![
                ("x-slack-request-timestamp", seconds.as_bytes()),
                ("x-slack-signature", signature.as_bytes()),
            ]
        })
        .collect();
    let timestamp: (&str, &[u8]) = ("x-slack-request-timestamp", seconds.as_bytes());
    let signature: (&str, &[u8]) = ("x-slack-signature", good.as_bytes());
    let bad: (&str, &[u8]) = ("x-slack-signature", b"v0=00");
    table.extend([
        vec![],
        vec![timestamp],
        vec![signature],
        vec![timestamp, signature, signature],
        vec![timestamp, signature, bad],
        vec![timestamp, bad, signature],
        vec![timestamp, timestamp, signature],
        vec![timestamp, signature, ("x-hub-signature-256", sha.as_bytes())],
        vec![("x-hub-signature", b"sha1=0"), timestamp, signature],
        vec![("x-telegram-bot-api-secret-token", b"s"), timestamp, signature],
        vec![("x-webhook-signature", hex.as_bytes())],
        vec![timestamp, ("x-slack-signature", b"v0=\xff\xfe")],
        vec![("x-slack-request-timestamp", b"1531420618 "), signature],
        vec![("x-slack-request-timestamp", b"+1531420618"), signature],
        vec![("x-slack-request-timestamp", b"0x5b479dca"), signature],
    ]);
    assert!(table.len() >= 40);
    for mut headers in table {
        headers.push(("content-type", b"application/json"));
        let received = slack().receive(&request(&headers, body), at(AT));
        assert!(unauthenticated(&received), "{headers:?} gave {received:?}");
    }
}

/// T16
#[test]
fn a_replayed_request_is_distinguished_from_a_forged_one() {
    let body = json!({"type": "url_verification", "challenge": "x"}).to_string();
    for (difference, expected) in [
        (0, Ok(Received::Answer("x".to_owned()))),
        (300, Ok(Received::Answer("x".to_owned()))),
        (-300, Ok(Received::Answer("x".to_owned()))),
        (301, Err(Rejected::Stale { seconds: -301 })),
        (-301, Err(Rejected::Stale { seconds: 301 })),
    ] {
        let request = signed("application/json", body.as_bytes());
        assert_eq!(
            slack().receive(&request, at(AT + difference)),
            expected,
            "{difference}"
        );
    }
    let mut forged = signed("application/json", body.as_bytes());
    *forged.body_mut() = Bytes::from_static(b"{}");
    assert_eq!(
        slack().receive(&forged, at(AT + 301)),
        Err(Rejected::Unauthenticated("hook.forged"))
    );
}

/// T17
#[test]
fn one_flipped_byte_is_one_too_many() {
    let body = envelope(mention()).to_string();
    for index in 0..body.len() {
        let mut request = signed("application/json", body.as_bytes());
        let mut tampered = body.clone().into_bytes();
        tampered[index] ^= 1;
        *request.body_mut() = Bytes::from(tampered);
        assert!(unauthenticated(&slack().receive(&request, at(AT))), "{index}");
    }
    let pretty = serde_json::to_string_pretty(&envelope(mention())).unwrap();
    let mut request = signed("application/json", body.as_bytes());
    *request.body_mut() = Bytes::from(pretty);
    assert!(unauthenticated(&slack().receive(&request, at(AT))));
}

/// T17
#[test]
fn encoded_bodies_and_other_types_are_not_accepted() {
    for encoding in ["gzip", "deflate", "br", "identity", ""] {
        let mut request = signed("application/json", b"{}");
        request
            .headers_mut()
            .insert("content-encoding", encoding.parse().unwrap());
        let received = slack().receive(&request, at(AT));
        assert!(matches!(received, Err(Rejected::Unsupported(_))), "{encoding}");
        // A sender without the secret learns nothing from the answer.
        *request.body_mut() = Bytes::from_static(b"{ }");
        assert!(unauthenticated(&slack().receive(&request, at(AT))), "{encoding}");
    }
    for content_type in [
        "text/plain",
        "multipart/form-data; boundary=x",
        "",
        "application/jsonp",
    ] {
        let received = slack().receive(&signed(content_type, b"{}"), at(AT));
        assert!(
            matches!(received, Err(Rejected::Unsupported(_))),
            "{content_type}"
        );
    }
    let received = slack().receive(&signed("Application/JSON; charset=utf-8", b"{}"), at(AT));
    assert_eq!(received, Err(Rejected::Malformed("the body is not an event")));
}

/// T21
#[test]
fn a_challenge_is_answered_only_when_signed_and_short() {
    let challenge = |text: &str| json!({"type": "url_verification", "challenge": text});
    let limit = "ä".repeat(256);
    assert_eq!(receive_json(&challenge(&limit)), Ok(Received::Answer(limit)));
    assert_eq!(
        receive_json(&challenge(&"x".repeat(257))),
        Err(Rejected::Malformed("the challenge is too long"))
    );
    assert_eq!(
        receive_json(&json!({"type": "url_verification"})),
        Err(Rejected::Malformed("the challenge is missing"))
    );
    let unsigned = request(
        &[("content-type", b"application/json")],
        challenge("x").to_string().as_bytes(),
    );
    assert!(unauthenticated(&slack().receive(&unsigned, at(AT))));
}
