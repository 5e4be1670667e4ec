"""Writes the viewer into its page, and its files: every architecture of the zoo, with its picture, its costs and its text."""

from pathlib import Path

import mkdocs_gen_files

from calque.studio.viewer import viewer_files, viewer_html

for name, content in viewer_files():
    with mkdocs_gen_files.open(f"assets/viewer/{name}", "w") as file:
        file.write(content)
with mkdocs_gen_files.open("viewer.md", "w") as file:
    file.write(
        (Path(__file__).parent / "viewer.md").read_text(encoding="utf-8") + "\n" + viewer_html("../assets/viewer")
    )
