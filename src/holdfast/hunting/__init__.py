"""Everything generic against one published lock library, within a time budget."""
