"""Writes the page of the viewer, and its files: every architecture of the zoo, with its picture, its costs and its text."""

import mkdocs_gen_files

from calque.studio.viewer import viewer_files, viewer_html

ABOUT = """---
hide: [toc, navigation]
search:
  exclude: true
---
# Architectures to point at

A pointer over a box marks its place in the text and its row in the table of costs; the same works from the text and from the table,
and with Tab and the arrow keys. `−` folds a repetition, `+` unfolds it. The address of this page names the architecture. The costs
are those of sentences of 25 words, without vocabularies. [Where the architectures are from](zoo.md). [`calque studio`](studio.md)
shows the same while you type.

"""

for name, content in viewer_files():
    with mkdocs_gen_files.open(f"assets/viewer/{name}", "w") as file:
        file.write(content)
with mkdocs_gen_files.open("viewer.md", "w") as file:
    file.write(ABOUT + viewer_html("../assets/viewer"))
