"""The ledger: results kept as small files in the repository, and the page of tables and verdicts made from them."""
