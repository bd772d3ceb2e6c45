/**
 * The console page with a real daemon and a real guest. It runs on the machine of the tests, which has the browser, but
 * in the network of a lab: see runBesideLab.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { findLab, LAB_GUEST, LAB_IN_ENVIRONMENT, labExec, LAB_NODE } from '../../lab/lab.ts'
import { foreign, NARROW, openBrowser, skip as noBrowser, visit } from '../browser/support/browser.ts'
import { openConsole } from '../browser/support/console-tab.ts'
import { until } from '../contract/until.ts'
import type { TestContext } from 'node:test'
import type { OpenBrowser, Visit } from '../browser/support/browser.ts'

const labName = process.env[LAB_IN_ENVIRONMENT]
const lab = labName === undefined ? undefined : findLab(labName)
const skip = lab === undefined ? 'not beside a lab: ./dev test does that, as root' : noBrowser

const VM = 'paged'
const PORT = 9000
const BOOT_BOUND_MS = 120_000

/** Runs a command inside the lab; returns its output. */
async function inLab(...argv: readonly string[]): Promise<string> {
  assert.ok(lab)
  const { code, stdout, stderr } = await labExec(lab, argv, { timeoutMs: BOOT_BOUND_MS })
  assert.equal(code, 0, `${argv.join(' ')}: ${stderr}`)
  return stdout.trim()
}

let browser: OpenBrowser | undefined
before(async () => {
  if (skip !== false) return
  await inLab(LAB_NODE, '/src/lab/inside/install.ts')
  const images = ['kernel=vmlinuz', 'initrd=initrd.cpio.gz', 'rootfs=rootfs.raw'].flatMap((image) => {
    const [what = '', name = ''] = image.split('=')
    return [`--${what}`, `${LAB_GUEST}/${name}`]
  })
  const shape = ['--memory', '256M', '--disk', '128M']
  await inLab('vmhostctl', 'vm', 'create', VM, ...images, ...shape, '--wait')
  browser = await openBrowser()
})
after(async () => {
  await browser?.close()
  if (skip === false) await inLab('vmhostctl', 'vm', 'rm', VM, '--wait')
})

async function visitor(t: TestContext): Promise<Visit> {
  assert.ok(browser)
  const [certificate, key] = await Promise.all(
    ['crt', 'key'].map((kind) => inLab('cat', `/etc/vmhostd/tls/controller.${kind}`)),
  )
  return visit(t, browser, { port: PORT, certificate: certificate ?? '', key: key ?? '' })
}

const property = (unit: string, name: string): Promise<string> =>
  inLab('systemctl', 'show', '--value', `--property=${name}`, unit)

test(
  'a command typed into the page runs in the guest, over a restart of the daemon too',
  { skip },
  async (t) => {
    const visited = await visitor(t)
    const { page, complaints } = visited
    const tab = await openConsole(visited, VM)
    await tab.shows('demo guest ready', BOOT_BOUND_MS)
    await tab.type('echo $((6*7))-first\n')
    await tab.shows('42-first')

    const pty = await property(`vmhost-${VM}`, 'TTYPath')
    const sizes = async (): Promise<void> => {
      const [cols, rows] = (await tab.size()) ?? []
      await until(
        () => inLab('stty', '-F', pty, 'size'),
        (size) => size === `${rows} ${cols}`,
      )
    }
    await sizes()
    const wide = await tab.size()
    await page.setViewportSize(NARROW)
    await until(
      () => tab.size(),
      (size) => size[0] !== wide[0] && size[1] !== wide[1],
    )
    await sizes()
    assert.deepEqual(complaints, [])

    const daemon = await property('vmhostd', 'MainPID')
    await tab.type('sleep 1; echo $((6*7))-meanwhile\n')
    await inLab('systemctl', 'restart', 'vmhostd')
    assert.notEqual(await property('vmhostd', 'MainPID'), daemon)
    await tab.shows('42-meanwhile')
    await tab.isIn('attached')
    await tab.type('echo $((6*7))-again\n')
    await tab.shows('42-again')
    // No text was drawn twice.
    assert.equal((await tab.text()).split('42-first').length - 1, 1)
    assert.deepEqual(foreign(visited), [])
  },
)

test('the page reports that the VM stops, and shows its next start', { skip }, async (t) => {
  const tab = await openConsole(await visitor(t), VM)
  await tab.isIn('attached')
  await tab.type('clear\n')
  await until(
    () => tab.text(),
    (text) => !text.includes('clear'),
  )
  await inLab('vmhostctl', 'vm', 'stop', VM, '--wait')
  await tab.isIn('waiting')
  await inLab('vmhostctl', 'vm', 'start', VM, '--wait')
  // Input that is typed before the kernel has its terminal ready is lost.
  await until(
    () => tab.text(),
    (text) => /demo guest ready[^]*\/ #\s*$/.test(text),
    BOOT_BOUND_MS,
  )
  await tab.type('echo $((6*7))-again\n')
  await tab.shows('42-again')
})

test(
  'the page of the host follows a guest, over restarts of the daemon too, and leads to its console',
  { skip },
  async (t) => {
    const visited = await visitor(t)
    const { page, origin } = visited
    await page.goto(`${origin}/`)
    const row = page.getByRole('row', { name: new RegExp(`^${VM} `) })
    const shows = (words: RegExp) =>
      until(
        () => row.innerText(),
        (text) => words.test(text),
      )
    await shows(/running[^]*256 MiB [\d.]+ MiB resident/)
    assert.match(await page.locator('#meters').innerText(), /Memory[^]*committed[^]*Disk[^]*free in the pool/)
    await page.locator('body[data-status=live]').waitFor()
    await inLab('vmhostctl', 'vm', 'stop', VM, '--wait')
    await shows(/stopped/)
    await inLab('vmhostctl', 'vm', 'start', VM, '--wait')
    await shows(/running/)
    // The address of the host leads to its page.
    assert.deepEqual(visited.complaints, [`${origin}/ answered 302`])
    await inLab('systemctl', 'stop', 'vmhostd')
    await page.getByText('The host does not answer. Trying again').waitFor()
    await shows(/running/)
    await inLab('systemctl', 'start', 'vmhostd')
    await page.locator('body[data-status=live]').waitFor()
    await inLab('systemctl', 'restart', 'vmhostd')
    await inLab('vmhostctl', 'vm', 'stop', VM, '--wait')
    await shows(/stopped/)
    await page.locator('body[data-status=live]').waitFor()
    await inLab('vmhostctl', 'vm', 'start', VM, '--wait')
    await row.getByRole('link', { name: `Console of ${VM}` }).click()
    await page.locator('body[data-state=attached]').waitFor()
    assert.deepEqual(foreign(visited), [])
  },
)
