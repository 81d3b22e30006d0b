#!/usr/bin/env bash
# adlfs, the Azure file system of fsspec, returns the new text of another writer cut to the length of the old one. After
# a listing of the directory, `open` and `read_text` take the size from there, and ask for so many bytes of whatever the
# blob is now. There is no error, and an edit by reading and writing loses the rest for good. `cat` is right. A new
# `AzureBlobFileSystem` does not help, because it is the same object. s3fs, with the same interface, also requires the
# ETag of the listing, and raises FileExpired.
#
# Guess: a read returns the old text or the new one, or fails; and a new object starts without a cache.
# Behavior: a text that nobody wrote.
# Seen with adlfs 2026.8.0 and s3fs 2026.9.0 of PyPI; the servers are azurite 3.37.0 of npm and moto 5.2.5 of PyPI.
# Fails if this changes. Needs Python with venv, Node.js with npm, PyPI and npm.
set -euo pipefail
place=$(mktemp -d)
cd "$place"
end() {
    kill "$server" 2>/dev/null || true
    rm -rf "$place"
}
trap end EXIT
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --only-binary=:all: \
    adlfs==2026.8.0 fsspec==2026.9.0 s3fs==2026.9.0 'moto[s3]==5.2.5' flask==3.1.3 flask-cors==6.0.5
npm init -y >/dev/null
npm install --silent --no-audit --no-fund azurite@3.37.0
free() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
port=$(free)
node_modules/.bin/azurite-blob --blobHost 127.0.0.1 --blobPort "$port" --silent --disableTelemetry \
    --skipApiVersionCheck --inMemoryPersistence >log 2>&1 &
server=$!
until curl -s -o /dev/null "http://127.0.0.1:$port/"; do sleep 0.1; done
cat >try.py <<'PYTHON'
import sys

import adlfs
import boto3
import s3fs
from azure.storage.blob import BlobServiceClient
from moto.server import ThreadedMotoServer

azure_port, s3_port = sys.argv[1:]
# The account and key that each Azurite has, as documented.
azure = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6"
    f"IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;BlobEndpoint=http://127.0.0.1:{azure_port}/devstoreaccount1;"
)
blobs = BlobServiceClient.from_connection_string(azure)
blob = blobs.create_container("memory").get_blob_client("notes.md")
ThreadedMotoServer(port=int(s3_port), verbose=False).start()
s3 = {"endpoint_url": f"http://127.0.0.1:{s3_port}", "region_name": "us-east-1"}
bucket = boto3.resource("s3", aws_access_key_id="a", aws_secret_access_key="b", **s3).create_bucket(Bucket="memory")


def edit(files):
    text = files.read_text("memory/notes.md") + "- honey\n"
    with files.open("memory/notes.md", "w") as file:
        file.write(text)
    return files.cat("memory/notes.md")


def compare(name, new, other):
    other(b"- milk\n")
    files = new()
    files.ls("memory")
    other(b"- no milk\n- tea\n")  # by another program
    print(f"{name}: a new object is the same: {new() is files}")
    print(" cat", files.cat("memory/notes.md"))
    for how in [lambda: files.read_text("memory/notes.md"), lambda: edit(files)]:
        try:
            print("", repr(how()))
        except OSError as error:
            print("", type(error).__name__)


def azure_write(text):
    blob.upload_blob(text, overwrite=True)


def s3_write(text):
    bucket.put_object(Key="notes.md", Body=text)


compare("adlfs", lambda: adlfs.AzureBlobFileSystem(connection_string=azure), azure_write)
compare("s3fs", lambda: s3fs.S3FileSystem(key="a", secret="b", client_kwargs=s3), s3_write)
PYTHON
venv/bin/python try.py "$port" "$(free)" 2>requests | tee found
diff found - <<'TEXT'
adlfs: a new object is the same: True
 cat b'- no milk\n- tea\n'
 '- no mi'
 b'- no mi- honey\n'
s3fs: a new object is the same: True
 cat b'- no milk\n- tea\n'
 FileExpired
 FileExpired
TEXT
