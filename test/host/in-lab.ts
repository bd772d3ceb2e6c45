import { existsSync } from 'node:fs'

/** Reason why tests of systemd cannot run here, or false: they need systemd and root. */
export const skip =
  process.getuid?.() === 0 && existsSync('/run/systemd/system') && existsSync('/run/systemd/private')
    ? false
    : 'needs root and systemd: run it in the lab'
