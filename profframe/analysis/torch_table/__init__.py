"""The numbers of torch's own table; `profframe.show.torch_table` prints them."""
