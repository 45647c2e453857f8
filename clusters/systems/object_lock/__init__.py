"""A lock that is an object of a bucket, written under conditions: on S3, on Cloud Storage."""
