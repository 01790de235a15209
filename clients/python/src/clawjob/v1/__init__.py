"""Messages and stubs of the contract, made by generate.sh from proto/."""
