import { join } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import type { SeedDisk } from '../../core/disks/seed.ts'
import type { Log } from '../../log/log.ts'
import { ExitError } from '../exec/exit-error.ts'
import { run } from '../exec/exec.ts'
import { mkdir, removeTree, writeFile } from '../files/pool-files.ts'

/** Any fixed time works: with it the same seed always makes the same bytes. */
const DATE = '2000010100000000'

/**
 * Writes a seed as an ISO 9660 image with the label that cloud-init looks for (cloud-init, "NoCloud" datasource), and
 * with Rock Ridge and Joliet names. xorriso is the only maintained program that writes such images.
 */
export async function writeSeedDisk(
  seed: SeedDisk,
  image: string,
  { doing, log }: { doing: string; log: Log },
): Promise<void> {
  const files = `${image}.files`
  try {
    await mkdir(files, { mode: 0o700 })
    for (const { name, content } of seed.files) await writeFile(join(files, name), content)
    await run([
      ...([
        'xorriso',
        '-as',
        'mkisofs',
        '-quiet',
        '-no-pad',
        '-volid',
        'cidata',
        '-joliet',
        '-rational-rock',
      ] as const),
      ...[`--modification-date=${DATE}`, '--set_all_file_dates', DATE],
      ...['-output', image, files],
    ])
  } catch (error) {
    throw seedFault(error, doing, log)
  } finally {
    await removeTree(files)
  }
}

function seedFault(error: unknown, doing: string, log: Log): unknown {
  if (error instanceof HostFault && error.code === 'tool_missing') {
    return new HostFault('tool_missing', `${doing} needs the program xorriso (package xorriso)`)
  }
  if (error instanceof ExitError) {
    // Its messages contain host paths, so only the log gets them.
    log.warn({ stderr: error.stderr }, 'xorriso failed')
    const cause = new Error(
      `xorriso ${error.signal === undefined ? `exited with status ${error.code}` : 'was killed'}`,
    )
    return new HostFault('storage_failed', doing, { cause })
  }
  return error
}
