"""What else checkers share: the resource's log, stalls, overtakes, fault windows, wording."""
