/** A stopped VM with a disk like a machine image: partly compressible data, and otherwise holes. */
import { createHash } from 'node:crypto'
import { openSync, closeSync, writeSync, fsyncSync } from 'node:fs'
import { mutate, settled } from '../lab/inside/controller.ts'
import { guestRequest } from '../lab/inside/guest.ts'

const MIB = 1024 * 1024
/** The guest's root file system lies before this. */
const DATA_AT_MIB = 128

export const diskOf = (id: string): string => `/var/lib/vmhostd/pool/disks/${id}/disk.raw`

/** Creates the VM, with so many MiB of data, which zstd compresses to about half. */
export async function makeDataVm(id: string, sizeMib: number, dataMib: number): Promise<void> {
  await mutate('PUT', `/v1/vms/${id}`, { ...guestRequest({ power: 'stopped' }), disk: { size_mib: sizeMib } })
  await settled(id, 'stopped')
  const disk = openSync(diskOf(id), 'r+')
  for (let mib = 0; mib < dataMib; mib += 1) writeSync(disk, dataOf(mib), 0, MIB, (DATA_AT_MIB + mib) * MIB)
  fsyncSync(disk)
  closeSync(disk)
}

/** Returns the same bytes each time, no two MiB equal: half of each KiB repeats and half cannot be compressed. */
function dataOf(mib: number): Buffer {
  const noise = createHash('shake256', { outputLength: MIB / 2 })
    .update(`mib ${mib}`)
    .digest()
  const bytes = Buffer.alloc(MIB, `machine image ${mib} `)
  for (let at = 0; at < MIB; at += 1024) noise.copy(bytes, at, at / 2, at / 2 + 512)
  return bytes
}
