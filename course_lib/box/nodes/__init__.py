"""The nodes of a job as namespaces: names, addresses, and the link between them."""
