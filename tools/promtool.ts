import { copyFileSync, existsSync, globSync, rmSync } from 'node:fs'
import path from 'node:path'
import { withLock } from './lock.ts'
import { cachePath, checkout } from './paths.ts'
import { publish } from './publish.ts'
import { step } from './step.ts'

const PACKAGE = 'prometheus'

/**
 * Returns the path of promtool, which checks metrics and rules. It is taken out of Debian's package without installing
 * that: an installed one would start a server.
 */
export async function promtool(): Promise<string> {
  const folder = cachePath('promtool')
  const program = path.join(folder, 'bin', 'promtool')
  if (existsSync(program)) return program
  await withLock('promtool', async () => {
    if (!existsSync(program)) await fetch(path.dirname(program))
  })
  return program
}

/** Puts promtool beside the package, for tests in a lab: these have no network. */
export async function placePromtool(): Promise<void> {
  const target = path.join(checkout, 'dist', 'promtool')
  if (!existsSync(target)) copyFileSync(await promtool(), target)
}

const fetch = (target: string): Promise<void> =>
  step(`fetch promtool from the package ${PACKAGE}`, (log) =>
    publish(target, async (building) => {
      // The sandbox user of apt cannot write here.
      const argv = ['apt-get', '-o', 'APT::Sandbox::User=root', 'download', PACKAGE]
      try {
        await log.run(argv, { cwd: building })
      } catch {
        log.write('\nno package lists, or old ones: fetching new ones\n')
        await log.run(['apt-get', 'update'])
        await log.run(argv, { cwd: building })
      }
      const [deb = ''] = globSync('*.deb', { cwd: building })
      const unpacked = path.join(building, 'unpacked')
      await log.run(['dpkg-deb', '-x', path.join(building, deb), unpacked])
      copyFileSync(path.join(unpacked, 'usr/bin/promtool'), path.join(building, 'promtool'))
      rmSync(path.join(building, deb))
      rmSync(unpacked, { recursive: true })
    }),
  )
