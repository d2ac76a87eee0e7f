"""What server and gateway share: errors, names, options, the codec, and older versions of the protocol."""
