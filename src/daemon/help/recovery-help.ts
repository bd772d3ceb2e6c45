import { CONFIG_OPTION, DONE_OR_FAILED, DONE_OR_REFUSED } from './shared-help.ts'
import type { CommandHelp } from './command-help.ts'

export const backupHelp: CommandHelp = {
  name: 'backup',
  operand: 'FILE',
  summary: 'write the records of all VMs into a file, with the configuration and keys of this host',
  usage: 'FILE [--replace] [--config FILE]',
  description: [
    'Writes the records of all VMs and snapshots into FILE, with the configuration of this host, its certificates, keys ' +
      'and revocation lists, and the SSH key that guests know. The daemon may run. Disks, images and saved guests are ' +
      'not in it: they are in the pool.',
    'FILE holds secrets: keys of this host, user data, and signed URLs that may be valid. It gets mode 0600. Keys of ' +
      'authorities and of the controller are not in it, so keep those yourself.',
    'If FILE is a link, the file that it names is written, and the link stays.',
  ],
  options: [['--replace', 'replace FILE if it is there and a regular file'], CONFIG_OPTION],
  exits: DONE_OR_FAILED,
}

export const restoreHelp: CommandHelp = {
  name: 'restore',
  operand: 'FILE',
  summary: 'put the records of a backup back, and say first what becomes of each VM',
  usage: 'FILE [--dry-run] [--end VM]… [--leave-out VM]… [--none-moved] [--pool-lost] [--config FILE]',
  description: [
    'Puts the records of FILE back: a backup ("vmhostd backup"), or a copy from before an upgrade ' +
      '(/var/lib/vmhostd/copies/schema-N.db). Says for each VM what the daemon would do with it. The daemon must be stopped; ' +
      'guests may run. Files of the host in FILE are put back where none is; a file that is there is kept.',
    'If the records would end a guest or remove a disk, nothing is put back. Say for each such VM what you want, with --end or ' +
      '--leave-out. A VM that has moved to another host since can only be left out, or it would run twice. ' +
      'If the present records are lost, this host does not know which VMs have moved: ask the other hosts, leave those ' +
      'VMs out, and add --none-moved for the rest.',
    'The pool of the records must be mounted. If it is lost for good, as on a new machine, say --pool-lost before "vmhostd setup" ' +
      'makes other certificates, and "vmhostd setup --replace-pool" afterwards. The VMs then have no disks.',
  ],
  options: [
    ['--end VM', 'its guest, or its disk, may be lost'],
    ['--leave-out VM', 'put back everything but its record; its guest and its disk stay as they are'],
    ['--none-moved', 'no other VM has moved to another host; needed if the present records do not say'],
    ['--pool-lost', 'the pool of the records is lost for good, with the disks of all VMs'],
    ['--dry-run', 'only say what would happen; the daemon may run'],
    CONFIG_OPTION,
  ],
  notes: ['The records that were there are kept in copies/before-restore-TIME.db of the state directory.'],
  exits: DONE_OR_REFUSED,
}

export const recoverHelp: CommandHelp = {
  name: 'recover',
  operand: '[VM]',
  summary: 'list the disks whose records are gone, and give a VM its record again',
  usage: '[VM] [--from FILE | --request FILE] [--dry-run] [--config FILE]',
  description: [
    'Gives a VM its record back if its disk is in the pool and its record is gone. Without VM, lists the disks ' +
      'without a record, and what is known of each. With VM alone, prints a draft of the request, with null for what ' +
      'the host does not show.',
  ],
  options: [
    [
      '--from FILE',
      'take the record from a backup, or from copies/before-restore-TIME.db of the state directory',
    ],
    [
      '--request FILE',
      'take what the host does not show from a request that creates a VM (JSON, as for PUT /v1/vms/VM)',
    ],
    ['--dry-run', 'only say what the record would be; the daemon may run'],
    CONFIG_OPTION,
  ],
  notes: [
    'The daemon must be stopped to store a record; guests may run, and are taken over at its start. The image and the size of ' +
      'the disk, the user of the monitor and whether there is a guest are as the host shows them, whatever the file says.',
  ],
  exits: DONE_OR_REFUSED,
}
