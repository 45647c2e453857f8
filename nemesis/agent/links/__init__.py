"""Faults of links: what happens to packets between two nodes, one nft rule or queue each."""
