"""Networks made from spaces: encoders, trunks, recurrent layers, actor-critics."""
