//! Screened stores.

use std::sync::{Arc, LazyLock};

use memory_tool_core::{
    Batch, Engine, Error, InMemoryStore, MemoryTool, Node, Precondition, Store, StoreError, StoreExt as _, StorePath,
};
use memory_tool_policies::{Detector, ScreenedStore, SensitiveData};
use memory_tool_test_fixtures::{path, property};
use proptest::prelude::{any, proptest};
use proptest::{prop_assert, prop_assert_eq};
use serde_json::{Value, json};

/// A synthetic token. It is split, because source code scanners would report it as a real one.
fn token() -> String {
    ["gh", "p_", "Zq81LmX0", "tR5vN2cK", "8wYbH4dJ", "6sGfA9eU", "3oPi"].concat()
}

/// A synthetic card number that is not a published test number.
const CARD: &str = "4929 7226 5379 7141";

struct Subject {
    inner: Arc<InMemoryStore>,
    store: ScreenedStore<Arc<InMemoryStore>, SensitiveData>,
}

impl Subject {
    fn new() -> Self {
        static SCREEN: LazyLock<SensitiveData> = LazyLock::new(SensitiveData::new);
        Self::with(SCREEN.clone())
    }

    fn redacting() -> Self {
        static SCREEN: LazyLock<SensitiveData> =
            LazyLock::new(|| SensitiveData::builder().redact(Detector::ALL.iter().copied()).build());
        Self::with(SCREEN.clone())
    }

    fn with(screen: SensitiveData) -> Self {
        let inner = Arc::new(InMemoryStore::new());
        Self { store: ScreenedStore::new(Arc::clone(&inner), screen), inner }
    }

    /// Writes a file without the policy, as before it was set up.
    async fn write_unscreened(&self, at: &str, text: &str) {
        self.inner.write(at, text).await.unwrap();
    }

    async fn call(&self, input: Value) -> Result<String, Error> {
        Engine::new(self.store.clone()).call(input).await.map(|reply| reply.to_string())
    }

    async fn create(&self, at: &str, text: &str) -> Result<String, Error> {
        self.call(json!({"command": "create", "path": at, "file_text": text})).await
    }

    async fn replace(&self, at: &str, old: &str, new: &str) -> Result<String, Error> {
        self.call(json!({"command": "str_replace", "path": at, "old_str": old, "new_str": new})).await
    }

    async fn content(&self, at: &str) -> Option<Vec<u8>> {
        match self.inner.read(path(at)).await.unwrap() {
            Node::File(file) => Some(file.content),
            _ => None,
        }
    }

    async fn text(&self, at: &str) -> Option<String> {
        self.content(at).await.map(|content| String::from_utf8(content).unwrap())
    }
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Refused { .. })), "{result:?}");
}

#[tokio::test]
async fn a_value_that_an_edit_joins_from_two_halves_is_refused() {
    let subject = Subject::new();
    let token = token();
    let (start, end) = token.split_at(20);
    subject.create("/memories/a", &format!("{start}-{end}")).await.unwrap();
    let before = subject.text("/memories/a").await;
    assert_refused(subject.replace("/memories/a", &format!("{start}-"), start).await);
    assert_eq!(subject.text("/memories/a").await, before);
}

#[tokio::test]
async fn an_insertion_that_completes_a_value_is_refused() {
    let subject = Subject::new();
    let first_line = ["-----BEGIN ", "PRIVATE KEY-----\n"].concat();
    subject.create("/memories/key", &first_line).await.unwrap();
    let body = ["MIIEvQIBADANBgkq", "hkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIB"].concat();
    let insert = json!({"command": "insert", "path": "/memories/key", "insert_line": 1, "insert_text": body});
    assert_refused(subject.call(insert).await);
    assert_eq!(subject.text("/memories/key").await.unwrap(), first_line);
}

#[tokio::test]
async fn an_old_value_can_stay_and_can_be_removed_by_an_edit() {
    let subject = Subject::new();
    subject.write_unscreened("/memories/a", &format!("PIN follows\n{CARD}\nend")).await;
    let insert = json!({"command": "insert", "path": "/memories/a", "insert_line": 1, "insert_text": "not shown:"});
    subject.call(insert).await.unwrap();
    assert_eq!(subject.text("/memories/a").await.unwrap(), format!("PIN follows\nnot shown:\n{CARD}\nend"));
    subject.replace("/memories/a", "7226 5379", "…").await.unwrap();
    assert_eq!(subject.text("/memories/a").await.unwrap(), "PIN follows\nnot shown:\n4929 … 7141\nend");
}

#[tokio::test]
async fn a_file_from_before_the_policy_can_be_edited_without_adding_values() {
    for subject in [Subject::new(), Subject::redacting()] {
        subject.write_unscreened("/memories/a", &format!("Anna pays with {CARD}.")).await;
        subject.replace("/memories/a", "Anna", "Bea").await.unwrap();
        assert_eq!(subject.text("/memories/a").await.unwrap(), format!("Bea pays with {CARD}."));
    }
    let subject = Subject::new();
    subject.write_unscreened("/memories/a", &format!("Anna pays with {CARD}.")).await;
    assert_refused(subject.replace("/memories/a", "Anna", &token()).await);
    subject.replace("/memories/a", CARD, "her card").await.unwrap();
    assert_refused(subject.replace("/memories/a", "her card", CARD).await);
    assert_eq!(subject.text("/memories/a").await.unwrap(), "Anna pays with her card.");
}

#[tokio::test]
async fn an_edit_of_a_stale_version_fails() {
    let subject = Subject::new();
    subject.write_unscreened("/memories/a", CARD).await;
    let Node::File(old) = subject.inner.read(path("/memories/a")).await.unwrap() else { panic!("no file") };
    subject.write_unscreened("/memories/a", "cleaned").await;
    let edit = Batch::new().require(path("/memories/a"), Precondition::Version(old.version));
    let edit = edit.write(path("/memories/a"), format!("{CARD}!"));
    let error = subject.store.apply(edit).await.unwrap_err();
    assert!(matches!(error, StoreError::VersionMismatch { .. }), "{error:?}");
    assert_eq!(subject.text("/memories/a").await.unwrap(), "cleaned");
}

#[tokio::test]
async fn a_precondition_on_another_file_does_not_make_a_write_an_edit() {
    let subject = Subject::new();
    subject.write_unscreened("/memories/a", CARD).await;
    let Node::File(other) = subject.inner.read(path("/memories/a")).await.unwrap() else { panic!("no file") };
    let copy = Batch::new().require(path("/memories/a"), Precondition::Version(other.version));
    let copy = copy.write(path("/memories/b"), CARD);
    assert!(matches!(subject.store.apply(copy).await, Err(StoreError::Refused { .. })));
}

#[tokio::test]
async fn overwriting_without_a_version_is_screened_as_a_new_file() {
    let subject = Subject::new();
    subject.write_unscreened("/memories/a", CARD).await;
    let overwrite = Batch::new().write(path("/memories/a"), CARD);
    assert!(matches!(subject.store.apply(overwrite).await, Err(StoreError::Refused { .. })));
}

#[tokio::test]
async fn a_refused_name_is_not_repeated() {
    let subject = Subject::new();
    subject.create("/memories/notes/a", "Hello").await.unwrap();
    let new = format!("/memories/notes/{}/b", token());
    let rename = Batch::new().rename(path("/memories/notes/a"), path(&new));
    let create = Batch::new().write(path(&new), b"Hello".to_vec());
    for batch in [rename, create] {
        let error = subject.store.apply(batch).await.unwrap_err();
        let StoreError::Refused { path, .. } = &error else { panic!("{error:?}") };
        assert_eq!(path.as_str(), "/memories/notes");
        assert!(!format!("{error} {error:?}").contains(&token()));
    }
    assert_refused(subject.call(json!({"command": "rename", "old_path": "/memories/notes/a", "new_path": new})).await);
    assert_eq!(subject.text("/memories/notes/a").await.unwrap(), "Hello");
    assert_eq!(subject.inner.list(StorePath::memories()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_file_with_an_old_name_can_be_edited_and_renamed() {
    let subject = Subject::redacting();
    let old = format!("/memories/{}", token());
    subject.write_unscreened(&format!("{old}/a"), "Hello").await;
    subject.replace(&format!("{old}/a"), "Hello", "Bye").await.unwrap();
    assert_refused(subject.create(&format!("{old}/b"), "").await);
    subject.call(json!({"command": "rename", "old_path": old, "new_path": "/memories/clean"})).await.unwrap();
    assert_eq!(subject.text("/memories/clean/a").await.unwrap(), "Bye");
}

#[tokio::test]
async fn one_refused_write_refuses_the_batch() {
    let subject = Subject::new();
    subject.write_unscreened("/memories/old", "old").await;
    let batch = Batch::new().write(path("/memories/a"), b"harmless".to_vec());
    let batch = batch.rename(path("/memories/old"), path("/memories/new"));
    let batch = batch.write(path("/memories/b"), token());
    let error = subject.store.apply(batch).await.unwrap_err();
    let StoreError::Refused { path: refused, policy: "screening", reason } = &error else { panic!("{error:?}") };
    assert_eq!(refused.as_str(), "/memories/b");
    assert!(reason.contains("GitHub token (line 1)") && !reason.contains(&token()), "{reason}");
    let files = subject.inner.list(StorePath::memories()).await.unwrap();
    assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["/memories/old"]);
}

#[tokio::test]
async fn a_view_shows_redactions() {
    let subject = Subject::redacting();
    subject.create("/memories/a", &format!("Token: {}\nCard: {CARD}\n", token())).await.unwrap();
    let view = subject.call(json!({"command": "view", "path": "/memories/a"})).await.unwrap();
    assert!(view.contains("Token: [redacted: GitHub token]"), "{view}");
    assert!(view.contains("Card: [redacted: payment card number]"), "{view}");
}

#[tokio::test]
async fn a_redaction_replaces_only_the_password() {
    let subject = Subject::redacting();
    for (at, text, stored) in [
        ("/memories/a", "DB_PASSWORD=vT9#mLq2xR\nDB_NAME=shop", "DB_PASSWORD=[redacted: password]\nDB_NAME=shop"),
        ("/memories/b", "{\"password\": \"c0rrect-h0rse\"}", "{\"password\": \"[redacted: password]\"}"),
        ("/memories/c", "curl -u ci:Xk29fPqz host", "curl -u ci:[redacted: password] host"),
        ("/memories/d", "The password is sunflower42.", "The password is [redacted: password]."),
    ] {
        subject.create(at, text).await.unwrap();
        assert_eq!(subject.text(at).await.unwrap(), stored);
    }
}

#[tokio::test]
async fn a_redacted_batch_keeps_its_preconditions() {
    let subject = Subject::redacting();
    subject.create("/memories/a", "first").await.unwrap();
    let create = Batch::new().require(path("/memories/a"), Precondition::Absent);
    let create = create.write(path("/memories/a"), token());
    assert!(matches!(subject.store.apply(create).await, Err(StoreError::AlreadyExists { .. })));
    let elsewhere = Batch::new()
        .require(path("/memories/b"), Precondition::Absent)
        .require(path("/memories/a"), Precondition::Absent);
    assert!(matches!(subject.store.apply(elsewhere).await, Err(StoreError::AlreadyExists { .. })));
}

#[tokio::test]
async fn content_that_is_not_text_is_stored_unchanged_or_refused() {
    for subject in [Subject::new(), Subject::redacting()] {
        let image = b"\x89PNG\r\n\x1a\n\xff\xfe\x00".to_vec();
        subject.store.apply(Batch::new().write(path("/memories/a.png"), image.clone())).await.unwrap();
        assert_eq!(subject.content("/memories/a.png").await, Some(image));

        let mut latin_1 = b"Schl\xfcssel: ".to_vec();
        latin_1.extend(token().bytes());
        let error = subject.store.apply(Batch::new().write(path("/memories/b"), latin_1)).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
        assert_eq!(subject.content("/memories/b").await, None);
    }
}

/// The text in encodings that other programs write.
fn encoded(text: &str) -> Vec<Vec<u8>> {
    let utf16 = |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
    let (little, big) = (utf16(u16::to_le_bytes), utf16(u16::to_be_bytes));
    let utf32: Vec<u8> = text.chars().flat_map(|character| u32::from(character).to_le_bytes()).collect();
    vec![
        [b"\xff\xfe", &little[..]].concat(),
        [b"\xfe\xff", &big[..]].concat(),
        [b"a binary file \xff\xd8", &little[..]].concat(),
        [&big[..], b"\x00"].concat(),
        little,
        big,
        utf32,
    ]
}

#[tokio::test]
async fn other_encodings_hide_no_value() {
    for subject in [Subject::new(), Subject::redacting()] {
        for content in encoded(&format!("a token for you\n{}\n", token())) {
            let write = Batch::new().write(path("/memories/a"), content.clone());
            let error = subject.store.apply(write).await.unwrap_err();
            let StoreError::Refused { policy: "screening", reason, .. } = &error else { panic!("{error:?}") };
            assert!(!reason.contains(&token()), "{reason}");

            // An edit may keep a value of the old text.
            subject.inner.apply(Batch::new().write(path("/memories/old"), content.clone())).await.unwrap();
            let Node::File(old) = subject.inner.read(path("/memories/old")).await.unwrap() else { panic!("no file") };
            let edit = Batch::new().require(path("/memories/old"), Precondition::Version(old.version));
            subject.store.apply(edit.write(path("/memories/old"), content)).await.unwrap();
        }
        for content in encoded("nothing to hide: £ 20, Grüße, привет\n") {
            subject.store.apply(Batch::new().write(path("/memories/b"), content.clone())).await.unwrap();
            assert_eq!(subject.content("/memories/b").await, Some(content));
        }
    }
    let subject = Subject::new();
    let cyrillic: Vec<u8> = "пароль: Секрет2024".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let error = subject.store.apply(Batch::new().write(path("/memories/c"), cyrillic)).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn invisible_characters_hide_no_value() {
    for subject in [Subject::new(), Subject::redacting()] {
        for invisible in ["\u{ad}", "\u{200b}", "\u{200d}", "\u{2060}", "\u{feff}", "\u{fe0f}", "\u{e0041}"] {
            let token = token();
            let (head, tail) = token.split_at(9);
            assert_refused(subject.create("/memories/a", &format!("{head}{invisible}{tail}")).await);
            let family = format!("\u{1f468}{invisible}\u{1f469} and a na{invisible}me");
            subject.create("/memories/b", &family).await.unwrap();
            assert_eq!(subject.text("/memories/b").await.unwrap(), family);
            subject.call(json!({"command": "delete", "path": "/memories/b"})).await.unwrap();
        }
    }
    // A visible value is redacted even if there are invisible characters elsewhere.
    let subject = Subject::redacting();
    subject.create("/memories/a", &format!("na\u{ad}me: {}", token())).await.unwrap();
    assert_eq!(subject.text("/memories/a").await.unwrap(), "na\u{ad}me: [redacted: GitHub token]");
}

#[tokio::test]
async fn a_reason_names_a_limited_number_of_findings() {
    let subject = Subject::new();
    let error = subject.create("/memories/a", &format!("{}\n", token()).repeat(1_000)).await.unwrap_err();
    assert!(error.to_string().len() < 500 && error.to_string().contains("and 995 more"), "{error}");
}

#[tokio::test]
async fn each_detector_has_a_separate_action() {
    let screen = SensitiveData::builder().redact([Detector::EmailAddress]).ignore([Detector::PaymentCard]).build();
    let subject = Subject::with(screen);
    subject.create("/memories/a", &format!("{CARD} of anna@correio.pt")).await.unwrap();
    assert_eq!(subject.text("/memories/a").await.unwrap(), format!("{CARD} of [redacted: e-mail address]"));
    assert_refused(subject.create("/memories/b", &format!("anna@correio.pt {}", token())).await);
    assert_refused(subject.create("/memories/anna@correio.pt", "").await);
}

#[tokio::test]
async fn a_number_after_another_number_is_found() {
    let subject = Subject::redacting();
    subject.create("/memories/a", &format!("12 2027 {CARD} 456")).await.unwrap();
    assert_eq!(subject.text("/memories/a").await.unwrap(), "12 2027 [redacted: payment card number] 456");
}

proptest! {
    #![proptest_config(property(64, 10_000))]

    #[test]
    fn accepted_content_is_stored_byte_for_byte(content in any::<Vec<u8>>(), text in "(?s).{0,200}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for content in [content, text.into_bytes()] {
            let subject = Subject::new();
            let batch = Batch::new().write(path("/memories/a"), content.clone());
            match runtime.block_on(subject.store.apply(batch)) {
                Ok(()) => prop_assert_eq!(runtime.block_on(subject.content("/memories/a")), Some(content)),
                Err(error) => prop_assert!(matches!(error, StoreError::Refused { .. }), "{error}"),
            }
        }
    }

    #[test]
    fn values_are_redacted_in_any_text(before in r"[^\x00]{0,40}", after in r"[^\x00]{0,40}") {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let subject = Subject::redacting();
        // Surrounded by spaces, because next to letters or digits it is a different word.
        let text = format!("{before} {} {after} {CARD}\n", token());
        runtime.block_on(subject.create("/memories/a", &text)).unwrap();
        let stored = runtime.block_on(subject.text("/memories/a")).unwrap();
        prop_assert!(!stored.contains(&token()), "{}", stored);
        prop_assert!(!stored.contains(CARD), "{}", stored);
    }
}
