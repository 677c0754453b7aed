"""What people look at: terminal tables, notebook HTML, plain text. All are made of frames."""
