//! Tests of the format against `tests/vectors/format-1.json`, which other languages can check as well.
//!
//! `cargo test -p memory-tool-encrypted --lib vectors -- --ignored` generated the vectors once. They never change: a
//! new format gets a new version and new vectors.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde_json::{Value, json};

use crate::cipher::{Cipher, Nonce};
use crate::header::{Header, IndexCopy, ObjectName, Slot, parse};
use crate::id::Id;
use crate::index::{FileRecord, Index};
use crate::keys::{DataKey, KeyProvider, Passphrase, PassphraseCost, RawKey};
use crate::object::{open, seal};
use crate::padding::Padding;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/format-1.json");
const VECTORS: &str = include_str!("../vectors/format-1.json");

const PASSPHRASE: &str = "correct horse battery staple";

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &Value) -> Vec<u8> {
    let digits = text.as_str().unwrap().as_bytes().chunks(2);
    digits.map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()).collect()
}

fn id(text: &Value) -> Id {
    Id::parse(text.as_str().unwrap()).unwrap()
}

fn padding(vector: &Value) -> Padding {
    match (vector["padding"].as_str(), vector["padding"].as_u64()) {
        (Some("none"), _) => Padding::None,
        (Some("padmé"), _) => Padding::Padme,
        (_, Some(size)) => Padding::Multiple(NonZeroUsize::new(size.try_into().unwrap()).unwrap()),
        other => panic!("{other:?}"),
    }
}

/// The provider of the key that wrapped a data key.
fn provider(vector: &Value) -> Box<dyn KeyProvider> {
    match vector["passphrase"].as_str() {
        Some(passphrase) => {
            Box::new(Passphrase::new(passphrase).unwrap().with_cost(PassphraseCost::new(64, 3, 4).unwrap()))
        }
        None => Box::new(RawKey::from_text(vector["key"].as_str().unwrap()).unwrap()),
    }
}

fn slots(vectors: &Value) -> Vec<Slot> {
    let slot = |vector: &Value| Slot {
        data_key: id(&vector["id"]),
        key: vector["wrapped_by"].as_str().unwrap().parse().unwrap(),
        wrapped: bytes(&vector["wrapped"]),
    };
    vectors["data_keys"].as_array().unwrap().iter().map(slot).collect()
}

fn cipher(vectors: &Value, data_key: &Value) -> Cipher {
    let data_keys = vectors["data_keys"].as_array().unwrap();
    let vector = data_keys.iter().find(|vector| vector["id"] == *data_key).unwrap();
    Cipher::new(&DataKey::try_from(bytes(&vector["data_key"])).unwrap())
}

fn object_name(vector: &Value) -> ObjectName {
    match vector["name"].as_str().unwrap() {
        "index-1" => ObjectName::Index(IndexCopy::First),
        "index-2" => ObjectName::Index(IndexCopy::Second),
        _ => ObjectName::Content(id(&vector["name"])),
    }
}

fn header(vectors: &Value, vector: &Value) -> Header {
    let nonce = Nonce(bytes(&vector["nonce"]).try_into().unwrap());
    let is_padded = padding(vector) != Padding::None;
    let mut header = Header::new(object_name(vector), id(&vectors["store"]), id(&vector["data_key"]), is_padded, nonce);
    if vector["files"].is_array() {
        header.slots = slots(vectors);
    }
    header
}

fn index(vectors: &Value, vector: &Value) -> Index {
    let file = |file: &Value| {
        let record = FileRecord { id: id(&file["id"]), data_key: id(&file["data_key"]), size: file["size"].as_u64() };
        (file["path"].as_str().unwrap().parse().unwrap(), record)
    };
    Index {
        store: id(&vectors["store"]),
        label: vector["label"].as_str().map(str::to_owned),
        revision: vector["revision"].as_u64().unwrap(),
        data_key: None,
        slots: slots(vectors),
        files: vector["files"].as_array().unwrap().iter().map(file).collect::<BTreeMap<_, _>>().into(),
    }
}

#[tokio::test]
async fn data_keys_of_the_vectors_are_unwrapped() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    for vector in vectors["data_keys"].as_array().unwrap() {
        let provider = provider(vector);
        assert_eq!(provider.key_id().as_str(), vector["wrapped_by"]);
        let unwrapped = provider.unwrap(&bytes(&vector["wrapped"])).await.unwrap();
        assert_eq!(hexadecimal(unwrapped.as_bytes()), vector["data_key"]);
    }
}

#[test]
fn objects_of_the_vectors_are_decrypted_and_encrypted() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    for vector in vectors["objects"].as_array().unwrap() {
        let (stored, plaintext) = (bytes(&vector["stored"]), bytes(&vector["plaintext"]));
        let cipher = cipher(&vectors, &vector["data_key"]);
        let (found, head) = parse(&stored).unwrap();
        assert_eq!(found, header(&vectors, vector));
        assert_eq!(object_name(vector).path().file_name(), vector["name"].as_str());
        assert_eq!(open(&found, &cipher, head, stored.clone()).unwrap(), plaintext);
        assert_eq!(seal(&found, &cipher, padding(vector), &plaintext).unwrap(), stored);
        if vector["files"].is_array() {
            let index = index(&vectors, vector);
            assert_eq!(Index::decode(found.store, found.slots, &plaintext).unwrap(), index);
            assert_eq!(index.encode().unwrap(), plaintext);
        }
    }
}

#[tokio::test]
#[ignore = "generates the vectors"]
async fn generate_the_vectors() {
    let raw = RawKey::generate().unwrap();
    let mut data_keys = Vec::new();
    for mut vector in [json!({"key": *raw.to_hex()}), json!({"passphrase": PASSPHRASE})] {
        let (provider, data_key) = (provider(&vector), DataKey::random().unwrap());
        vector["id"] = Id::random().unwrap().to_string().into();
        vector["wrapped_by"] = provider.key_id().as_str().into();
        vector["data_key"] = hexadecimal(data_key.as_bytes()).into();
        vector["wrapped"] = hexadecimal(&provider.wrap(&data_key).await.unwrap()).into();
        data_keys.push(vector);
    }
    let random_id = || Value::from(Id::random().unwrap().to_string());
    let contents: [(&str, &[u8], Value, usize); 5] = [
        ("/memories/empty", b"", "none".into(), 0),
        ("/memories/notes/tea.txt", b"Tea, no milk\n", "none".into(), 1),
        ("/memories/notes/zoë.txt", "Zoë, 茶\n".as_bytes(), 64.into(), 1),
        ("/memories/notes.md", &[b'x'; 64], 64.into(), 0),
        ("/memories/padmé", &[0x80; 1000], "padmé".into(), 0),
    ];
    let (mut objects, mut files) = (Vec::new(), Vec::new());
    for (path, content, padding, slot) in contents {
        let (name, data_key) = (random_id(), &data_keys[slot]["id"]);
        let size = if padding == "none" { Value::Null } else { content.len().into() };
        files.push(json!({"path": path, "id": name, "data_key": data_key, "size": size}));
        objects
            .push(json!({"name": name, "data_key": data_key, "padding": padding, "plaintext": hexadecimal(content)}));
    }
    let mut vectors = json!({"store": random_id(), "data_keys": data_keys, "objects": []});
    for (name, label) in [("index-1", None), ("index-2", None), ("index-1", Some("Zoë's memory"))] {
        let mut vector =
            json!({"name": name, "data_key": data_keys[0]["id"], "padding": 1024, "revision": 7, "files": files});
        if let Some(label) = label {
            vector["label"] = label.into();
        }
        vector["plaintext"] = hexadecimal(&index(&vectors, &vector).encode().unwrap()).into();
        objects.push(vector);
    }
    for vector in &mut objects {
        vector["nonce"] = hexadecimal(&Nonce::random().unwrap().0).into();
        let cipher = cipher(&vectors, &vector["data_key"]);
        let stored = seal(&header(&vectors, vector), &cipher, padding(vector), &bytes(&vector["plaintext"])).unwrap();
        vector["stored"] = hexadecimal(&stored).into();
    }
    vectors["objects"] = objects.into();
    std::fs::write(PATH, format!("{vectors:#}\n")).unwrap();
}
