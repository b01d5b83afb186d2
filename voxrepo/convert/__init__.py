"""Making graphs for a device: fixed shapes, masks, gears, and the checks that the device's compiler makes."""
