"""Facts that several checkers share: resource log, stalls, overtakes, fault windows, wording."""
