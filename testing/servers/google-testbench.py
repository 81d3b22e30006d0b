"""Serves Google's storage testbench to `object_store`. The testbench decides all conditions; this adds the listings,
deletions and headers that its XML interface lacks.

    git clone https://github.com/googleapis/storage-testbench && cd storage-testbench
    python3 -m venv venv && venv/bin/pip install .
    PYTHONPATH=. venv/bin/python PATH/google-testbench.py 9555 &
    STORAGE_EMULATOR_HOST=http://127.0.0.1:9555 memory-tool-conformance --store gs://test-bucket/suite
"""

import datetime
import email.utils
import sys
from xml.sax.saxutils import escape

import flask
import waitress
from gcs.object import Object
from testbench import common, rest_server

BUCKET = "test-bucket"


def with_headers(response, blob):
    """Adds the headers that identify the object."""
    metadata = blob.metadata
    created = metadata.create_time.ToDatetime().replace(tzinfo=datetime.timezone.utc)
    response.headers["ETag"] = f'"{metadata.generation}"'
    response.headers["x-goog-generation"] = str(metadata.generation)
    response.headers["Last-Modified"] = email.utils.format_datetime(created, usegmt=True)
    return response


def put_object(bucket_name, object_name):
    bucket = rest_server.db.get_bucket(bucket_name, None).metadata
    blob, _ = Object.init_xml(flask.request, bucket, object_name)
    conditions = common.make_xml_preconditions(flask.request)
    rest_server.db.insert_object(bucket_name, blob, preconditions=conditions)
    return with_headers(flask.make_response(""), blob)


def get_object(bucket_name, object_name):
    request = common.FakeRequest.init_xml(flask.request)
    conditions = common.make_xml_preconditions(flask.request)
    blob = rest_server.db.get_object(
        bucket_name, object_name, generation=None, preconditions=conditions, context=None
    )
    return with_headers(blob.rest_media(request), blob)


rest_server.xml_put_object, rest_server.xml_get_object = put_object, get_object


@rest_server.root.route("/<bucket_name>", subdomain="")
@rest_server.root.route("/<bucket_name>/", subdomain="")
def list_objects(bucket_name):
    prefix = flask.request.args.get("prefix", "")
    after = flask.request.args.get("start-after", "")
    objects = list(rest_server.db._objects[f"projects/_/buckets/{bucket_name}"].values())
    objects.sort(key=lambda blob: blob.metadata.generation)
    latest = {blob.metadata.name: blob.metadata for blob in objects}
    entries = "".join(
        f"<Contents><Key>{escape(name)}</Key><Size>{latest[name].size}</Size>"
        f'<ETag>"{latest[name].generation}"</ETag>'
        f"<LastModified>{latest[name].create_time.ToJsonString()}</LastModified></Contents>"
        for name in sorted(latest)
        if name.startswith(prefix) and name > after
    )
    xml = f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
    return flask.Response(xml, content_type="application/xml")


@rest_server.root.route("/<bucket_name>/<path:object_name>", subdomain="", methods=["DELETE"])
def delete_object(bucket_name, object_name):
    rest_server.db.delete_object(bucket_name, object_name)
    return flask.Response(status=204)


with rest_server.server.test_client() as client:
    client.post("/storage/v1/b?project=test", json={"name": BUCKET})
waitress.serve(rest_server.server, host="127.0.0.1", port=int(sys.argv[1]), threads=16)
