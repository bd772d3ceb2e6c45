import { join } from 'node:path'
import { HostFault } from '../../core/errors.ts'
import type { Seed } from '../../core/storage/seed.ts'
import type { Log } from '../../log/log.ts'
import { ExitError } from '../exec/exit-error.ts'
import { run } from '../exec/exec.ts'
import { mkdir, removeTree, writeFile } from './pool-files.ts'

/** Any fixed time does: with it the same seed always makes the same bytes. */
const DATE = '2000010100000000'

/**
 * Writes a seed as an ISO 9660 image with the label that cloud-init looks for (cloud-init, "NoCloud" datasource), its
 * names in Rock Ridge and Joliet. xorriso is the one writer of such images that is still maintained.
 */
export async function writeSeedDisk(
  seed: Seed,
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
    // Its words have host paths in them, so they are for the log only.
    log.warn({ stderr: error.stderr }, 'xorriso failed')
    const cause = new Error(
      `xorriso ${error.signal === undefined ? `exited with status ${error.code}` : 'was killed'}`,
    )
    return new HostFault('storage_failed', doing, { cause })
  }
  return error
}
