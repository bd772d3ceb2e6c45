import { CONFIG_PATH } from '../../config/config.ts'
import { limits } from '../../config/limits.ts'
import { CONFIG_OPTION } from './shared-help.ts'
import type { CommandHelp } from './command-help.ts'

export const setupHelp: CommandHelp = {
  name: 'setup',
  summary: 'make directories, mark the storage pool, create certificates and a configuration',
  usage: '[OPTIONS]',
  description: [
    'Prepares this host: directories with their modes, the mark of the storage pool, a configuration file, the SSH key with ' +
      'which the daemon logs in to guests, and for a start a certificate authority with certificates for the server, the ' +
      'controller and this node. Existing files are kept as they are, so you can run it again at any time. It reports ' +
      'what it made and what to do next. Run it as root.',
  ],
  options: [
    ['--config FILE', `the configuration to read, or to write if there is none (${CONFIG_PATH})`],
    [
      '--san NAME',
      'a further name or address of this host for the controller and other hosts; may be repeated. The host name, localhost, ' +
        '127.0.0.1 and ::1 are always included, and so is a listen_address that is not a wildcard.',
    ],
    [
      '--replace-pool',
      'for a pool that is lost: continue with the one that is there now, or mark a new one. The VMs on record then ' +
        'have no disks. Stop the daemon first.',
    ],
  ],
  moreOptions: {
    lead: 'Only when the configuration is written for the first time (later, edit the file):',
    options: [
      ['--host-id ID', 'the name of this host in answers (the host name)'],
      ['--common-name NAME', "the common name of the controller's certificate (vmhost-controller)"],
      ['--pool-directory DIR', 'disks and images; XFS with reflink or btrfs is best (/var/lib/vmhostd/pool)'],
      ['--state-directory DIR', 'the records of all VMs (/var/lib/vmhostd)'],
      ['--run-directory DIR', 'sockets of this boot, below /run (/run/vmhostd)'],
      ['--tls-directory DIR', 'certificates and keys (/etc/vmhostd/tls)'],
      ['--local-images-directory DIR', 'a directory whose files may be images, under file: URLs (none)'],
    ],
  },
  notes: [
    'With certificates of your own, put them where the configuration says (controller.ca_file, certificate_file, key_file) ' +
      "before you run it. A server certificate needs the usage serverAuth, the controller's clientAuth and the common name. The " +
      "node's (coordination.certificate_file) needs both usages, and host.id as its common name.",
  ],
  exits: [
    [0, 'done'],
    [1, 'something is missing or failed'],
    [2, 'wrong usage'],
  ],
}

export const serveHelp: CommandHelp = {
  name: 'serve',
  summary: 'run the daemon in the foreground; systemd does this: systemctl enable --now vmhostd',
  usage: '[--config FILE]',
  description: [
    'Runs the daemon in the foreground, logging JSON lines to standard output. systemd runs it as vmhostd.service, with the ' +
      'descriptor store that consoles need. On SIGTERM it ends within shutdown_bound_seconds, and guests keep running. If the ' +
      'host shuts down, it first does what on_shutdown says, within on_shutdown_seconds.',
  ],
  options: [CONFIG_OPTION],
  exits: [
    [0, 'after a signal'],
    [1, 'it cannot start'],
  ],
}

export const renewHelp: CommandHelp = {
  name: 'certificate renew',
  summary:
    'replace the certificates of this host that end soon or are not valid yet, or give them more names',
  usage: '[--all] [--san NAME]… [--config FILE]',
  description: [
    `Replaces the certificates of this host that end within ${limits.certificateWarningDays} days or are not valid yet, with a new key and the same names: those of ` +
      'the server, the controller, the node and the reader of metrics. The key of the authority must be beside its certificate, ' +
      'where "vmhostd setup" made it; bring it back for this if you keep it elsewhere.',
    'A certificate of another authority, or one with a critical extension that cannot be made here, is not replaced; ' +
      'the report says what to do. The daemon uses new files within ' +
      `${limits.certificateRecheckMs / 1000} s, without a restart. Each has the owner, the group and the mode of the one before.`,
  ],
  options: [
    ['--all', 'renew those that are valid and end later too'],
    [
      '--san NAME',
      'a name or address that the certificates of the server and the node must have; one that lacks it is renewed, and keeps the ' +
        'names that it has. May be repeated.',
    ],
    CONFIG_OPTION,
  ],
  exits: [
    [0, 'nothing is left to do'],
    [1, 'a certificate must be signed elsewhere, an authority is not valid yet, or it failed'],
    [2, 'wrong usage'],
  ],
}

export const issueHelp: CommandHelp = {
  name: 'certificate issue',
  operand: 'NAME',
  summary: 'make a certificate for one more client of the API, such as a reader',
  usage: 'NAME [--directory DIR] [--config FILE]',
  description: [
    'Makes a key and a certificate with the common name NAME, signed by the authority of the controller, and says what the ' +
      'configuration lets that name do, and how to let it in. The key of the authority must be beside its certificate, where ' +
      '"vmhostd setup" made it; bring it back for this if you keep it elsewhere.',
  ],
  options: [
    [
      '--directory DIR',
      'where NAME.crt and NAME.key are written (the current directory); no file is replaced',
    ],
    CONFIG_OPTION,
  ],
  exits: [
    [0, 'the certificate is made'],
    [1, 'the authority cannot sign here, or it failed'],
    [2, 'wrong usage'],
  ],
}

export const doctorHelp: CommandHelp = {
  name: 'doctor',
  summary: 'check this host before and after the set-up, and say what to do about each finding',
  usage: '[--json] [--config FILE]',
  description: [
    'Checks this host, before and after the set-up: kernel, modules, forwarding, cgroup controllers, QEMU and Firecracker, KVM, ' +
      'the pool and its file system, room, memory, the SSH key, addresses of listeners, certificates, clock, and whether ' +
      'systemd keeps consoles. Says what to do about each finding. Changes nothing. Run it as root; the daemon may run.',
  ],
  options: [
    ['--json', 'the findings as JSON: {"findings": [{"check", "level", "found", "remedy"}]}'],
    CONFIG_OPTION,
  ],
  notes: [
    'Levels: ok; should: something is slow, missing or ends soon; must: VMs cannot run, or not within their limits, ' +
      'until this is done.',
  ],
  exits: [
    [0, 'no "must"'],
    [1, 'at least one'],
    [2, 'wrong usage'],
  ],
}
