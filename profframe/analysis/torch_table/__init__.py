"""What torch's own table has in its rows, as numbers; `profframe.show.torch_table` prints them."""
