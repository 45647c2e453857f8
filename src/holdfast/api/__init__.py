"""The Python API behind `import holdfast`: recorded runs as data frames."""
