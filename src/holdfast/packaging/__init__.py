"""Packages of findings: a folder with a script that shows a bug without Holdfast."""
