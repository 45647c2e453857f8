"""The version of Holdfast, which manifests record."""

VERSION = "0.2.0"
