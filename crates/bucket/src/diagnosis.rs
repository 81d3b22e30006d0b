//! Causes of failed requests, and advice for the operator.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::iter::successors;

use memory_tool_core::{BoxError, ErrorKind};
use object_store::Error as ObjectError;

/// An error with its cure, for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{advice}")]
struct Diagnosed {
    advice: Cow<'static, str>,
    source: ObjectError,
}

/// Adds the meaning and advice to a known error.
pub(crate) fn diagnose(error: ObjectError) -> BoxError {
    match advice(&error) {
        Some(advice) => Diagnosed { advice, source: error }.into(),
        None => error.into(),
    }
}

/// Errors of reading credentials on this machine: the start of the message, and advice.
const UNREADABLE_CREDENTIALS: [(&str, &str); 3] = [
    ("Failed to read token file", "the token file cannot be read: correct AWS_WEB_IDENTITY_TOKEN_FILE"),
    ("Error reading federated token file", "the token file cannot be read: correct AZURE_FEDERATED_TOKEN_FILE"),
    ("'az account get-access-token' command failed", "`az` returned no token: run `az login`"),
];

/// Advice about credentials that cannot be read on this machine.
pub(crate) fn unreadable_credentials(error: &ObjectError) -> Option<&'static str> {
    let known = |text: String| UNREADABLE_CREDENTIALS.iter().find(|(start, _)| text.starts_with(start));
    chain(error).find_map(|cause| known(cause.to_string())).map(|(_, advice)| *advice)
}

fn advice(error: &ObjectError) -> Option<Cow<'static, str>> {
    if let Some(refusal) = Refusal::of(error) {
        return refusal.advice();
    }
    if let Some(advice) = unreadable_credentials(error) {
        return Some(advice.into());
    }
    let [endpoint, allow_http] = variables(error);
    if is_plain_http(error) {
        return Some(
            format!("the endpoint is not encrypted: set {allow_http} to allow http://, or use https://").into(),
        );
    }
    is_unreachable(error).then(|| {
        let has = |matches: &dyn Fn(&(dyn Error + 'static)) -> bool| chain(error).any(matches);
        let refused = |cause: &(dyn Error + 'static)| {
            cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        if has(&refused) {
            format!("the object store refused the connection: start the server, or correct {endpoint}").into()
        } else if has(&|cause| cause.to_string() == "dns error") {
            format!("the host of the object store is unknown: correct {endpoint}, or check the network").into()
        } else {
            format!("cannot connect to the object store: check {endpoint}, the server's certificate and the network")
                .into()
        }
    })
}

/// The variables that name the endpoint, and the one that allows a connection without TLS.
fn variables(error: &ObjectError) -> [&'static str; 2] {
    match error {
        ObjectError::Generic { store: "S3", .. } => ["AWS_ENDPOINT_URL or AWS_REGION", "AWS_ALLOW_HTTP=true"],
        ObjectError::Generic { store: "GCS", .. } => {
            ["STORAGE_EMULATOR_HOST or GOOGLE_BASE_URL", "GOOGLE_ALLOW_HTTP=true"]
        }
        ObjectError::Generic { store: "MicrosoftAzure", .. } => {
            ["AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_ENDPOINT or AZURITE_BLOB_STORAGE_URL", "AZURE_ALLOW_HTTP=true"]
        }
        _ => ["the endpoint", "the client"],
    }
}

fn chain(error: &ObjectError) -> impl Iterator<Item = &(dyn Error + 'static)> {
    successors(Some(error as &(dyn Error + 'static)), |&error| error.source())
}

/// Whether the client is not allowed to use an endpoint without TLS.
pub(crate) fn is_plain_http(error: &ObjectError) -> bool {
    chain(error).any(|cause| cause.to_string() == "URL scheme is not allowed")
}

/// Whether no connection could be made, so that nothing was sent.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
pub(crate) fn is_unreachable(error: &ObjectError) -> bool {
    use object_store::client::{HttpError, HttpErrorKind};

    chain(error)
        .any(|cause| cause.downcast_ref::<HttpError>().is_some_and(|error| error.kind() == HttpErrorKind::Connect))
}

#[cfg(not(any(feature = "s3", feature = "gcs", feature = "azure")))]
pub(crate) fn is_unreachable(_: &ObjectError) -> bool {
    false
}

/// Whether the bucket does not exist. An absent object has the same status.
pub(crate) fn is_bucket_missing(error: &ObjectError) -> bool {
    Refusal::of(error).is_some_and(|refusal| refusal.is_of_bucket())
}

/// A response with an error status.
pub(crate) struct Refusal {
    status: u16,
    body: String,
}

impl Refusal {
    /// The response that caused an error. `object_store` publishes only its text, whose form the tests with servers
    /// pin.
    pub(crate) fn of(error: &ObjectError) -> Option<Self> {
        chain(error).find_map(|cause| {
            let text = cause.to_string();
            if text.starts_with("Received redirect without LOCATION") {
                return Some(Self { status: 301, body: String::new() });
            }
            let (status, body) = text.strip_prefix("Server returned non-2xx status code: ")?.split_once(": ")?;
            Some(Self { status: status.get(..3)?.parse().ok()?, body: body.to_owned() })
        })
    }

    fn is_of_bucket(&self) -> bool {
        matches!(self.code(), "NoSuchBucket" | "ContainerNotFound")
    }

    /// The kind of failure, if the same request would be refused again.
    pub(crate) fn kind_if_final(&self) -> Option<ErrorKind> {
        match (self.code(), self.status) {
            _ if self.is_of_bucket() => Some(ErrorKind::Other),
            // The request did not arrive whole.
            ("RequestTimeout" | "IncompleteBody" | "BadDigest" | "Md5Mismatch", _) => None,
            (_, 401 | 403) => Some(ErrorKind::AccessDenied),
            (_, 304 | 404 | 408 | 409 | 412 | 425 | 429) => None,
            (_, 300..=399 | 501) => Some(ErrorKind::Other),
            (_, 400..=499) if self.are_credentials_refused() => Some(ErrorKind::AccessDenied),
            (_, 400..=499) => Some(ErrorKind::Other),
            _ => None,
        }
    }

    fn are_credentials_refused(&self) -> bool {
        let codes = ["ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", "RequestExpired"];
        // The last two come from the OAuth servers of Google Cloud Storage and Azure.
        codes.contains(&self.code())
            || ["\"invalid_grant\"", "\"invalid_client\""].iter().any(|code| self.body.contains(code))
    }

    fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match (self.code(), self.status) {
            _ if self.is_of_bucket() => "the bucket does not exist: create it, or correct its name in the URL",
            ("ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired", _) => {
                "the AWS credentials have expired: set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN \
                 to new ones, for example to what `aws configure export-credentials --format env` prints"
            }
            ("InvalidToken", _) => {
                "the AWS session token is invalid: set AWS_SESSION_TOKEN to the one that belongs to AWS_ACCESS_KEY_ID, \
                 or unset it"
            }
            ("InvalidAccessKeyId", _) => {
                "the AWS access key does not exist: correct AWS_ACCESS_KEY_ID, and set AWS_SESSION_TOKEN if the key is \
                 temporary"
            }
            ("SignatureDoesNotMatch", _) => "the AWS secret key is wrong: correct AWS_SECRET_ACCESS_KEY",
            ("AuthenticationFailed" | "AuthorizationFailure", _) => {
                "Azure refused the credentials: correct AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY, or renew \
                 AZURE_STORAGE_SAS_TOKEN, and check the firewall of the account"
            }
            ("RequestTimeTooSkewed" | "RequestExpired", _) => "the clock of this machine is wrong: set it",
            ("AuthorizationHeaderMalformed", _) if element(&self.body, "Region").is_some() => {
                let region = element(&self.body, "Region").unwrap_or_default();
                return Some(format!("the bucket is in another region: set AWS_REGION={region}").into());
            }
            ("AuthorizationHeaderMalformed" | "IllegalLocationConstraintException", _) => {
                "the bucket is in another region: set AWS_REGION to the bucket's region"
            }
            (_, 300..=399) => {
                "the bucket is in another region or at another endpoint: set AWS_REGION to the bucket's region, or \
                 correct the endpoint"
            }
            (_, 401) => "the object store refused the credentials: renew them, or correct the variables that name them",
            (_, 403) => "the object store denied access: check the credentials and their permissions on the bucket",
            (_, 501) => {
                "the object store does not support a request that a store needs, such as a conditional put: use \
                 another one"
            }
            _ if self.are_credentials_refused() => "the credentials were refused: renew them",
            _ => return None,
        }))
    }

    /// The code in the XML of S3, Google Cloud Storage and Azure, or an empty string.
    fn code(&self) -> &str {
        element(&self.body, "Code").unwrap_or_default()
    }
}

/// The text of the first element of that name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once('<').map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ErrorClass;

    /// An error of a client with the response in its chain, as `object_store` builds it.
    fn refused(status: &str, body: &str) -> ObjectError {
        #[derive(Debug, thiserror::Error)]
        #[error("Error performing GET http://host/bucket/key in 1ms - {0}")]
        struct Retry(#[source] Request);
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Request(String);

        let request = Request(format!("Server returned non-2xx status code: {status}: {body}"));
        let (path, source) = ("key".to_owned(), Box::new(Retry(request)));
        match &status[..3] {
            "404" => ObjectError::NotFound { path, source },
            "403" => ObjectError::PermissionDenied { path, source },
            "412" => ObjectError::Precondition { path, source },
            _ => ObjectError::Generic { store: "S3", source },
        }
    }

    fn with_code(status: &str, code: &str) -> ObjectError {
        refused(status, &format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>text</Message></Error>"))
    }

    #[test]
    fn final_refusals_name_the_cure() {
        let (denied, other) = (ErrorKind::AccessDenied, ErrorKind::Other);
        for (status, code, kind, advice) in [
            ("404 Not Found", "NoSuchBucket", other, "the bucket does not exist: create it"),
            ("404 Not Found", "ContainerNotFound", other, "the bucket does not exist: create it"),
            // A put that replaces an object of a missing bucket.
            ("412 Precondition Failed", "NoSuchBucket", other, "the bucket does not exist: create it"),
            ("400 Bad Request", "ExpiredToken", denied, "have expired: set AWS_ACCESS_KEY_ID"),
            ("400 Bad Request", "InvalidToken", denied, "AWS_SESSION_TOKEN"),
            ("403 Forbidden", "InvalidAccessKeyId", denied, "correct AWS_ACCESS_KEY_ID"),
            ("403 Forbidden", "SignatureDoesNotMatch", denied, "correct AWS_SECRET_ACCESS_KEY"),
            ("403 Forbidden", "RequestTimeTooSkewed", denied, "clock"),
            ("403 Forbidden", "AuthenticationFailed", denied, "AZURE_STORAGE_KEY"),
            ("403 Forbidden", "AccessDenied", denied, "permissions"),
            ("401 Unauthorized", "AuthenticationRequired", denied, "renew them"),
            ("400 Bad Request", "AuthorizationHeaderMalformed", other, "set AWS_REGION"),
            ("301 Moved Permanently", "PermanentRedirect", other, "set AWS_REGION"),
            ("501 Not Implemented", "NotImplemented", other, "conditional put"),
        ] {
            let error = with_code(status, code);
            assert_eq!(ErrorClass::of(&error), ErrorClass::Impossible(kind), "{code}");
            let text = diagnose(error).to_string();
            assert!(text.contains(advice), "{code}: {text}");
        }
        let unnamed = with_code("400 Bad Request", "InvalidRequest");
        assert_eq!(ErrorClass::of(&unnamed), ErrorClass::Impossible(other));
        let token = refused("400 Bad Request", r#"{"error": "invalid_grant"}"#);
        assert_eq!(ErrorClass::of(&token), ErrorClass::Impossible(denied));
    }

    #[test]
    fn the_region_of_the_bucket_is_named() {
        let body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>";
        let text = diagnose(refused("400 Bad Request", body)).to_string();
        assert_eq!(text, "the bucket is in another region: set AWS_REGION=eu-west-1");
    }

    #[test]
    fn refusals_that_may_pass_are_retried() {
        for (status, code) in [
            ("400 Bad Request", "RequestTimeout"),
            ("400 Bad Request", "IncompleteBody"),
            ("408 Request Timeout", ""),
            ("429 Too Many Requests", "TooManyRequests"),
            ("500 Internal Server Error", "InternalError"),
            ("503 Service Unavailable", "SlowDown"),
        ] {
            assert_eq!(ErrorClass::of(&with_code(status, code)), ErrorClass::Unclear, "{status} {code}");
        }
        assert_eq!(ErrorClass::of(&with_code("412 Precondition Failed", "PreconditionFailed")), ErrorClass::Refused);
    }

    /// The path of a file is a part of a key, and an error contains the key.
    #[test]
    fn a_key_cannot_pose_as_a_response() {
        let path = "Server returned non-2xx status code: 404 Not Found: <Code>NoSuchBucket</Code>".to_owned();
        let error = ObjectError::NotFound { path, source: "no such key".into() };
        assert!(advice(&error).is_none());
    }
}
