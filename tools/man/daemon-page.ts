import { CONFIG_PATH, parseConfig } from '../../src/config/config.ts'
import { commandHelps, FIRST_STEPS } from '../../src/daemon/help/overview.ts'
import {
  example,
  heading,
  nameLine,
  page,
  paragraph,
  references,
  sentence,
  subheading,
  synopsis,
  terms,
  title,
} from './roff.ts'
import type { CommandHelp } from '../../src/daemon/help/command-help.ts'
import type { Title } from './roff.ts'

/** Where the package puts its documents. */
const DOCUMENTS = '/usr/share/doc/vmhostd'

/** Renders vmhostd(8) from what the commands of vmhostd say about themselves. */
export function daemonPage(about: Pick<Title, 'date' | 'version'>): string {
  return page([
    title({ ...about, name: 'vmhostd', section: 8 }),
    heading('NAME'),
    nameLine('vmhostd', 'run microVMs on this host and serve an HTTP API over mutual TLS'),
    heading('SYNOPSIS'),
    synopsis('vmhostd COMMAND [OPTIONS]'),
    heading('DESCRIPTION'),
    paragraph(
      'vmhostd runs microVMs under systemd, each in a unit of its own. They live on when the daemon stops, crashes or is ' +
        'upgraded. A controller uses its HTTP API; vmhostctl(1) is the client for people and scripts. The commands below are ' +
        'for the host itself, as root.',
    ),
    paragraph(
      `${DOCUMENTS}/operating.md says how to operate a host, and errors.md beside it explains each error code.`,
    ),
    heading('COMMANDS'),
    ...commandHelps.flatMap(commandParts),
    heading('EXIT STATUS'),
    paragraph(
      'Each command has its exit statuses in its part of COMMANDS. The status of a wrong usage is 2.',
    ),
    heading('FILES'),
    ...terms(explained(files())),
    heading('EXAMPLES'),
    example('A new host:', [FIRST_STEPS]),
    example('What the running daemon logs:', ['journalctl -u vmhostd']),
    heading('SEE ALSO'),
    references(['vmhostctl(1)', 'journalctl(1)', 'systemctl(1)', 'systemd.exec(5)']),
  ])
}

function commandParts({
  name,
  usage,
  description,
  options,
  moreOptions,
  notes = [],
  exits,
}: CommandHelp): string[] {
  return [
    subheading(`vmhostd ${name}`),
    synopsis(`vmhostd ${name} ${usage}`.trimEnd()),
    ...description.map(paragraph),
    ...terms(explained(options)),
    ...(moreOptions === undefined
      ? []
      : [paragraph(moreOptions.lead), ...terms(explained(moreOptions.options))]),
    ...notes.map(paragraph),
    paragraph(`Exit status: ${exits.map(([status, meaning]) => `${status} ${meaning}`).join(', ')}.`),
  ]
}

const explained = (entries: readonly (readonly [string, string])[]): [string, string][] =>
  entries.map(([term, text]) => [term, sentence(text)])

/** Paths of a host whose configuration sets nothing. */
function files(): [string, string][] {
  const { stateDirectory, runDirectory, storage } = parseConfig('', { path: CONFIG_PATH, hostname: 'host' })
  return [
    [CONFIG_PATH, 'the configuration; the paths below are its defaults'],
    [stateDirectory, 'the records of all VMs'],
    [storage.poolDirectory, 'the storage pool: disks, images, saved guests'],
    [runDirectory, 'sockets of this boot'],
    [`${DOCUMENTS}/config.example.toml`, 'every key of the configuration, with its default'],
  ]
}
