import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { distributionMirror } from '../tools/apt.ts'
import { hashInputs } from '../tools/hash.ts'
import { withLock } from '../tools/lock.ts'
import { cachePath } from '../tools/paths.ts'
import { publish } from '../tools/publish.ts'
import { step } from '../tools/step.ts'
import { aptAboveRoot } from './apt-above-root.ts'
import { mountPoint } from './boot.ts'
import { execIn } from './exec.ts'
import { recipeForThisMachine } from './recipe.ts'
import { ensureRoot } from './root.ts'
import { useCached } from './state.ts'
import type { LabState } from './state.ts'

/** Folders with the package files of two versions of QEMU. */
export type QemuVersions = { readonly older: string; readonly newer: string }

const PLACE = '/srv/qemu'
const INSTALL_BOUND_MS = 120_000

/** Makes no folders if both suites have the same version. */
const FETCH = `suite=$1 archive=$2 components=$3 out=$4 qemu=$5
echo "deb $archive $suite-security $components" >"$root"/etc/apt/sources.list.d/security.list
apt-get update
for from in "$suite" "$suite-security"; do
  mkdir "$out/$from"
  cd "$out/$from"
  apt-get download "$qemu/$from" "qemu-system-common/$from" "qemu-system-data/$from"
done
cd "$out"
version() { dpkg-deb --field "$1/$qemu"_*.deb Version; }
own=$(version "$suite") security=$(version "$suite-security")
if dpkg --compare-versions "$security" lt "$own"; then
  mv "$suite-security" older
  mv "$suite" newer
elif dpkg --compare-versions "$security" gt "$own"; then
  mv "$suite" older
  mv "$suite-security" newer
fi`

/**
 * Fetches two versions of QEMU into the cache: that of the lab's distribution, and that of its security archive, which
 * is older after a point release and newer before it. Returns undefined while both have the same.
 */
export async function ensureQemuVersions(): Promise<QemuVersions | undefined> {
  const cached = await ensureRoot()
  const { origin, suite, components, qemuPackage } = recipeForThisMachine()
  const folder = path.join(cachePath('qemu'), hashInputs([import.meta.filename], [cached.key]))
  if (!existsSync(folder)) {
    const mirror = await distributionMirror(origin)
    const archive = origin === 'Debian' ? `${mirror}-security` : mirror
    await withLock('qemu', async () => {
      if (existsSync(folder)) return
      await step(`fetch the versions of QEMU that ${suite} and ${suite}-security have`, (log) =>
        publish(folder, async (building) => {
          const args = [suite, archive, components.replaceAll(',', ' '), building, qemuPackage]
          const above = await aptAboveRoot({ cached, building, commands: FETCH, args, log })
          rmSync(above.folder, { recursive: true })
        }),
      )
    })
  }
  useCached(folder)
  const [older, newer] = [path.join(folder, 'older'), path.join(folder, 'newer')]
  return existsSync(older) ? { older, newer } : undefined
}

/** Installs package files in a lab with dpkg, as an upgrade by apt does. */
export async function installQemu(lab: LabState, folder: string): Promise<void> {
  const place = path.join(mountPoint(lab.folder), PLACE)
  cpSync(folder, place, { recursive: true })
  const files = readdirSync(folder).map((name) => `${PLACE}/${name}`)
  const argv = ['dpkg', '--install', '--force-unsafe-io', ...files]
  const { code, stdout, stderr } = await execIn(lab, argv, { timeoutMs: INSTALL_BOUND_MS })
  rmSync(place, { recursive: true })
  if (code !== 0) throw new Error(`dpkg in the lab ${lab.name}:\n${stdout}${stderr}`)
}
