"""A paper's table, reproduced: rows times seeds trained on one corpus, and its claims put to the test."""
