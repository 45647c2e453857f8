"""A lock in a DynamoDB table: conditional puts, and record versions that its owner renews."""

PORT = 8000
TABLE = "locks"
