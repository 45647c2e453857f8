"""Lock services under test: promises as data, how to deploy one, how to call one."""
