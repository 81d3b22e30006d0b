//! Environment variables of the clouds' own tools that `object_store` does not read.

use crate::url_error::UrlError;

/// Settings of a client by the names that `object_store` has for them.
type Settings = Vec<(&'static str, String)>;

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Variables of AWS. Profiles are not read, so a profile must not be replaced by other credentials silently.
#[cfg(any(feature = "s3", test))]
pub(crate) fn aws(variables: Variables<'_>) -> Result<Settings, UrlError> {
    match (variables("AWS_PROFILE"), variables("AWS_ACCESS_KEY_ID")) {
        (Some(profile), None) => Err(UrlError::Profile { profile }),
        _ => Ok(Settings::new()),
    }
}

/// The variable of Google's own libraries for an emulator. They send it no credentials, and accept it without a scheme.
#[cfg(any(feature = "gcs", test))]
pub(crate) fn google(variables: Variables<'_>) -> Result<Settings, UrlError> {
    let Some(host) = variables("STORAGE_EMULATOR_HOST").filter(|host| !host.is_empty()) else {
        return Ok(Settings::new());
    };
    let url = if host.contains("://") { host } else { format!("http://{host}") };
    let mut settings = vec![("base_url", url.trim_end_matches('/').to_owned())];
    if variables("GOOGLE_BEARER_TOKEN").is_none() {
        // The client has no anonymous writes. An emulator ignores the token.
        settings.push(("bearer_token", "anonymous".to_owned()));
    }
    Ok(settings)
}

/// The variables of Azure's command line. Separate variables override a connection string.
#[cfg(any(feature = "azure", test))]
pub(crate) fn azure(variables: Variables<'_>) -> Result<Settings, UrlError> {
    let mut settings = match variables("AZURE_STORAGE_CONNECTION_STRING") {
        Some(text) => connection_string(&text)?,
        None => Settings::new(),
    };
    for (variable, setting) in [("AZURE_STORAGE_ACCOUNT", "account_name"), ("AZURE_STORAGE_KEY", "access_key")] {
        settings.extend(variables(variable).map(|value| (setting, value)));
    }
    Ok(settings)
}

/// Whether the clouds' own tools have left credentials in a file that the client of this feature reads.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
pub(crate) fn has_file_of(feature: &str) -> bool {
    let home = std::env::var_os(if cfg!(windows) { "APPDATA" } else { "HOME" });
    let file = if cfg!(windows) { "gcloud" } else { ".config/gcloud" };
    let file = std::path::Path::new(file).join("application_default_credentials.json");
    feature == "gcs" && home.is_some_and(|home| std::path::Path::new(&home).join(file).exists())
}

/// The settings in a [connection
/// string](https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string).
#[cfg(any(feature = "azure", test))]
fn connection_string(text: &str) -> Result<Settings, UrlError> {
    let mut settings = Settings::new();
    let (mut account, mut protocol, mut suffix, mut endpoint) = (None, "https", None, None);
    for part in text.split(';').filter(|part| !part.trim().is_empty()) {
        let (name, value) = part.split_once('=').ok_or(UrlError::ConnectionString)?;
        match name.trim() {
            "AccountName" => account = Some(value),
            "AccountKey" => settings.push(("access_key", value.to_owned())),
            "SharedAccessSignature" => settings.push(("sas_token", value.to_owned())),
            "UseDevelopmentStorage" => settings.push(("use_emulator", value.to_owned())),
            "DefaultEndpointsProtocol" => protocol = value,
            "EndpointSuffix" => suffix = Some(value),
            "BlobEndpoint" => endpoint = Some(value.to_owned()),
            _ => {} // of other services
        }
    }
    settings.extend(account.map(|account| ("account_name", account.to_owned())));
    let usual = account.zip(suffix).map(|(account, suffix)| format!("{protocol}://{account}.blob.{suffix}"));
    if let Some(endpoint) = endpoint.or(usual) {
        settings.push(("azure_allow_http", endpoint.starts_with("http://").to_string()));
        settings.push(("endpoint", endpoint));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn a_profile_is_refused_unless_there_are_keys() {
        let refused = aws(&among(&[("AWS_PROFILE", "work")]));
        assert!(matches!(refused, Err(UrlError::Profile { profile }) if profile == "work"));
        assert!(aws(&among(&[("AWS_PROFILE", "work"), ("AWS_ACCESS_KEY_ID", "id")])).unwrap().is_empty());
    }

    #[test]
    fn the_emulator_of_google_is_found() {
        let anonymous = ("bearer_token", "anonymous".to_owned());
        for host in ["http://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1:1/"] {
            let settings = google(&among(&[("STORAGE_EMULATOR_HOST", host)])).unwrap();
            assert_eq!(settings, [("base_url", "http://127.0.0.1:1".to_owned()), anonymous.clone()], "{host}");
        }
        let with_token = [("STORAGE_EMULATOR_HOST", "http://a:1"), ("GOOGLE_BEARER_TOKEN", "token")];
        assert_eq!(google(&among(&with_token)).unwrap(), [("base_url", "http://a:1".to_owned())]);
        assert!(google(&among(&[("STORAGE_EMULATOR_HOST", "")])).unwrap().is_empty());
    }

    #[test]
    fn a_connection_string_is_taken_apart() {
        let text = "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=a+b/c==;EndpointSuffix=core.windows.net";
        let settings = azure(&among(&[("AZURE_STORAGE_CONNECTION_STRING", text), ("AZURE_STORAGE_KEY", "other")]));
        let expected = [
            ("access_key", "a+b/c=="),
            ("account_name", "me"),
            ("azure_allow_http", "false"),
            ("endpoint", "https://me.blob.core.windows.net"),
            ("access_key", "other"),
        ];
        assert_eq!(settings.unwrap(), expected.map(|(name, value)| (name, value.to_owned())));
        let signed = "BlobEndpoint=https://a.example/me;SharedAccessSignature=sv=1&sig=x%3D;QueueEndpoint=https://q;";
        let expected =
            [("sas_token", "sv=1&sig=x%3D"), ("azure_allow_http", "false"), ("endpoint", "https://a.example/me")];
        assert_eq!(connection_string(signed).unwrap(), expected.map(|(name, value)| (name, value.to_owned())));
        assert!(matches!(connection_string("AccountName=me;secret"), Err(UrlError::ConnectionString)));
    }
}
