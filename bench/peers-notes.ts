import type { Measurement } from './measurement.ts'

/** Scope of a figure and differences between the two sides, and why ours may be slower. One line each. */
type Notes = { readonly covers: readonly string[]; readonly behind: string }

const NOTES: Readonly<Record<string, Notes>> = {
  define_ms: {
    covers: [
      'ours: PUT until it is answered, when the VM is committed and flushed; its tap, rule, disk and seed are made afterwards',
      'libvirt: virDomainDefineXML, which flushes its XML file but not the rename, and makes neither tap, rule nor disk',
    ],
    behind:
      'ours checks addresses, user ids and capacity against all VMs and commits a database; libvirt writes a file',
  },
  first_ping_ms: {
    covers: [
      'from the request until the first echo reply; disk, tap and route are there already for both',
      'microvm: the same board, PCI addresses and kernel arguments; libvirt does not know pcie=on, it is handed through',
      'q35: what libvirt supports; a BIOS loads the kernel, and each device is behind a PCI Express port of its own',
    ],
    behind: 'both start the same monitor; ours first looks at the host and has systemd make a sandboxed unit',
  },
  stop_ms: {
    covers: [
      'ours: PUT power stopped until GET says stopped: its process is gone, its unit forgotten, and the host looked at again',
      'libvirt: until virDomainDestroy returns: its process is gone; it looks for that every 200 ms',
    ],
    behind: 'ours has systemd end the unit, and looks at the host once more before it says stopped',
  },
  save_ms: {
    covers: [
      'ours: from the decision until the unit has ended; memory and directory are flushed to disk, and the checksum taken',
      'libvirt: until virDomainManagedSave returns: its process is gone; to the same file system',
    ],
    behind: 'ours is durable and checksummed before the guest ends, and ends a unit instead of a process',
  },
  restore_ms: {
    covers: [
      'from the request until the first echo reply to a client that sends from then on',
      'ours compares the checksum of what it reads; libvirt removes its file after the start',
    ],
    behind:
      'ours looks at the host, has systemd make a sandboxed unit, compares a checksum and makes the removal durable first',
  },
  list_states_100_ms: {
    covers: [
      'ours: id, generations, state and error of each VM in one answer, parsed; it is kept while nothing changes',
    ],
    behind: 'ours answers over TLS; libvirt behind a local socket',
  },
  list_100_ms: {
    covers: ['ours: the whole resource of each VM in one answer, parsed'],
    behind: 'ours reads and parses the record of each VM, and sends all of it over TLS',
  },
}

/** Returns the notes on a figure. */
export function peerNotes({ metric, ratio, reference_name }: Measurement): readonly string[] {
  const notes = NOTES[metric]
  if (notes === undefined) throw new Error(`nothing is written about ${metric}`)
  return ratio < 1 ? notes.covers : [...notes.covers, `behind ${reference_name}: ${notes.behind}`]
}
