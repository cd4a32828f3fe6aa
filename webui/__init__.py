"""The page: a Gradio shell, with routes and scripts of its own for what must be fast."""
