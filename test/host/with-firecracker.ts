import { existsSync } from 'node:fs'
import { findFirecracker } from '../../lab/firecracker.ts'

/** Path of Firecracker here; the lab has it if the machine outside has it. */
export const firecracker = findFirecracker()

/** Reason why tests of Firecracker cannot run here, or false. */
export const skipWithoutFirecracker = ((): string | false => {
  if (firecracker === undefined)
    return 'there is no Firecracker: put it on PATH, or name it in VMHOSTD_FIRECRACKER'
  return existsSync('/dev/kvm') ? false : 'Firecracker needs /dev/kvm'
})()
