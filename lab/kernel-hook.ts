/*
 * A customize hook of mmdebstrap, called with the kernel's package name and the root. mmdebstrap hands over
 * the configuration with which this machine's apt works for that root. It fetches the guests' kernel packages without
 * installing them: an installed kernel would bring an initramfs generator and half a minute of work that no lab uses.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { runChecked } from '../tools/process.ts'

const [kernelPackage = '', root = ''] = process.argv.slice(2)
// Without it apt would answer for this machine and fetch this machine's kernel.
const config = process.env['MMDEBSTRAP_APT_CONFIG']
if (config === undefined) throw new Error('mmdebstrap gave no apt configuration')
const env = { ...process.env, APT_CONFIG: config }

const NOT_WANTED = ['recommends', 'suggests', 'conflicts', 'breaks', 'replaces', 'enhances'].map(
  (kind) => `--no-${kind}`,
)

/** The real packages behind a meta package: the kernel, and on Ubuntu its modules too. */
async function kernelPackages(meta: string): Promise<string[]> {
  const listing = await runChecked(['apt-cache', 'depends', '--recurse', ...NOT_WANTED, meta], { env })
  const names = listing.split('\n').filter((line) => /^linux-(image|modules)-\d/.test(line))
  return [...new Set(names)]
}

const downloads = path.join(root, 'tmp/kernel-packages')
mkdirSync(downloads)
const packages = await kernelPackages(kernelPackage)
if (packages.length === 0) throw new Error(`nothing found behind ${kernelPackage}`)
await runChecked(['apt-get', 'download', ...packages], { cwd: downloads, env })
for (const file of readdirSync(downloads)) {
  await runChecked(['dpkg-deb', '-x', path.join(downloads, file), path.join(root, 'opt/guest-kernel')])
}
rmSync(downloads, { recursive: true })
