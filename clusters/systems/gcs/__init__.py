"""Locks that are objects of Google Cloud Storage, written under generation preconditions, against
`fake-gcs-server`."""

PORT = 4443
BUCKET = "locks"
