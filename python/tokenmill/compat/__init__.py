"""Classes shaped like those of other libraries, so that code written for them runs here unchanged."""
