#!/usr/bin/env bash
# cloudpathlib 0.26.0 has a check against lost updates that misses the usual ones. Before an upload, it compares two
# times, and raises OverwriteNewerCloudError if the object is newer. The time of the local copy is that of the program's
# own last write, not of the version that the program started from. A change that another writer makes between opening
# and writing is replaced without an error, and only one after the last local write is refused. Reads compare times too,
# and S3 has whole seconds. After two changes in one second, a session that read between them gets the old text until
# somebody writes again, and its next edit puts the old text back. The ETag would show both, and is not used.
#
# Guess: the check finds each change since the file was opened, and a later read finds each change.
# Behavior: the line of another writer is lost, without an error.
# Seen with cloudpathlib 0.26.0 of PyPI; the server is moto 5.2.5 of PyPI. Fails if this changes. Needs Python with
# venv, and PyPI.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --only-binary=:all: \
    'cloudpathlib[s3]==0.26.0' 'moto[s3]==5.2.5' flask==3.1.3 flask-cors==6.0.5
cat >try.py <<'PYTHON'
import time

import boto3
from cloudpathlib import S3Client
from cloudpathlib.exceptions import OverwriteNewerCloudError
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
account = {"endpoint_url": f"http://{host}:{port}", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
other = boto3.client("s3", region_name="us-east-1", **account)
other.create_bucket(Bucket="memory")


def write(text):  # by another program
    other.put_object(Bucket="memory", Key="notes.md", Body=text)
    return other.head_object(Bucket="memory", Key="notes.md")["LastModified"]


def stored():
    return other.get_object(Bucket="memory", Key="notes.md")["Body"].read()


def append(*order):
    write("- tea\n")
    try:
        with S3Client(**account).CloudPath("s3://memory/notes.md").open("a") as file:
            for who in order:
                time.sleep(1.5)
                if who == "other":
                    write("- tea\n- no milk\n")
                else:
                    file.write("- honey\n")
                    file.flush()
    except OverwriteNewerCloudError as error:
        print(" ", type(error).__name__)
    print(" ", stored())


def edit(pause):
    notes = S3Client(**account).CloudPath("s3://memory/notes.md")
    notes.exists()  # connects
    time.sleep(1.02 - time.time() % 1)  # the beginning of a second
    first = write("- tea\n")
    notes.read_text()
    time.sleep(pause)
    second = write("- tea\n- no milk\n")
    if (first == second) != (pause < 1):
        return edit(pause)  # the machine was too slow
    time.sleep(3)
    text = notes.read_text()
    notes.write_text(text + "- honey\n")
    print(f"  read {text!r}\n  {stored()}")


print("opened, changed by another writer, written")
append("other", "own")
print("opened, written, changed by another writer")
append("own", "other")
print("read after two changes in one second")
edit(0.1)
print("read after two changes in two seconds")
edit(1.1)
server.stop()
PYTHON
timeout 90 venv/bin/python try.py 2>requests | tee found
diff found - <<'TEXT'
opened, changed by another writer, written
  b'- tea\n- honey\n'
opened, written, changed by another writer
  OverwriteNewerCloudError
  b'- tea\n- no milk\n'
read after two changes in one second
  read '- tea\n'
  b'- tea\n- honey\n'
read after two changes in two seconds
  read '- tea\n- no milk\n'
  b'- tea\n- no milk\n- honey\n'
TEXT
