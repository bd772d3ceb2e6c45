/** Texts about `vmhostctl` as a whole, for its overview and its man page. */
import { exitStatus } from './exit-status.ts'
import { HOST_PROFILE, PROFILE_VARIABLE } from './profile.ts'

type Entry<Term> = readonly [term: Term, meaning: string]

export const ABOUT = 'vmhostctl talks to vmhostd, which runs microVMs on one Linux host.'

export const EXITS: readonly Entry<number>[] = [
  [exitStatus.done, 'done'],
  [exitStatus.failed, 'refused or failed'],
  [exitStatus.usage, 'wrong usage'],
  [exitStatus.timedOut, 'a wait timed out'],
  [exitStatus.unreachable, 'no profile, or no answer yet'],
]

export const ENVIRONMENT: readonly Entry<string>[] = [
  [PROFILE_VARIABLE, 'the profile to use if --profile does not name one'],
  ['XDG_CONFIG_HOME', 'where the profile of a user is, instead of ~/.config'],
  ['NO_COLOR', 'if it is not empty, the output has no colours'],
]

export const FILES: readonly Entry<string>[] = [
  ['~/.config/vmhostctl/profile.toml', 'the profile of a user: url, ca, cert and key of one daemon'],
  [HOST_PROFILE, 'the profile that "vmhostd setup" writes; used if a user has none'],
]

/** A first VM: command lines for a shell, and what they need. */
export const FIRST_VM = {
  lead: 'A first VM, from images on the host (storage.local_images_directory of its configuration):',
  lines: [
    'vmhostctl vm create web-1 --kernel /srv/images/vmlinuz --initrd /srv/images/initrd \\',
    '    --rootfs /srv/images/root.img --ipv4 192.0.2.10 --wait',
    'vmhostctl vm ls',
  ],
} as const

/** Two lines for a terminal. */
export const ABOUT_WAIT =
  'A command that changes something returns when the daemon has stored it, and with --wait when the host has done it.\n' +
  'vm migrate and host drain always wait: a day at most, a drain without --to an hour; --timeout sets another time.'
