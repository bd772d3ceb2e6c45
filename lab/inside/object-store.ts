/** An S3-compatible object store inside the lab: OpenStack Swift with its s3api, over TLS, with signatures checked. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { configure } from './configure.ts'
import {
  ACCESS_KEY,
  ADDRESS,
  BACKENDS,
  CA_FILE,
  certificateScript,
  CONFIG_FOLDER,
  configFiles,
  DEVICE,
  DEVICES,
  HOST,
  PORT,
  SECRET_KEY,
} from './object-store-files.ts'
import { bucketOf } from './presign.ts'
import { sh } from './shell.ts'
import { until } from './until.ts'
import type { StoreAccess } from './presign.ts'
import type { Backend } from './object-store-files.ts'

const PYTHON = '/usr/bin/python3'
const DISK = '/var/lib/lab/object-store.xfs'
/** The file is sparse, so it takes only the space of its content. */
const DISK_SIZE = '16G'
const UNITS = ['proxy', 'object', 'container', 'account'].map(unitOf)

export const storeAccess: StoreAccess = {
  endpoint: `https://${HOST}:${PORT}`,
  region: 'us-east-1',
  accessKey: ACCESS_KEY,
  secretKey: SECRET_KEY,
  bucket: 'machine-images',
  caFile: CA_FILE,
}

/** The reason why this lab cannot have a store, or false. */
export const noObjectStore =
  existsSync('/run/systemd/system') && existsSync('/usr/lib/python3/dist-packages/swift')
    ? false
    : 'needs OpenStack Swift: run it in the lab'

/** Starts the store, empty at first, with a bucket; safe to repeat. It ends with the lab. */
export async function startObjectStore(): Promise<StoreAccess> {
  await makePlace()
  await writeConfiguration()
  await Promise.all(backends.map(async ([kind, { module }]) => serve(kind, module)))
  await serve('proxy', 'swift.proxy.server')
  const bucket = bucketOf(storeAccess)
  try {
    await until('the object store has its bucket', async () => {
      await bucket.create()
      return true
    })
  } finally {
    bucket.close()
  }
  return storeAccess
}

/** Ends the store as a crash would; its objects stay. */
export async function stopObjectStore(): Promise<void> {
  await sh('systemctl', 'kill', '--signal=KILL', ...UNITS).catch(() => {})
  await sh('systemctl', 'stop', ...UNITS).catch(() => {})
}

/** Stops the store's processes: it accepts connections and answers nothing, until the returned function is called. */
export async function holdObjectStore(): Promise<() => Promise<void>> {
  const signal = async (name: string): Promise<void> =>
    void (await sh('systemctl', 'kill', `--signal=${name}`, unitOf('proxy')))
  await signal('STOP')
  return () => signal('CONT')
}

/** Networks that the daemon must not refuse, although they are this host's: the store is on the host that it serves. */
export const STORE_NETWORKS: readonly string[] = [`${ADDRESS}/32`]

/** Lets the daemon of this lab trust the store's certificate and connect to its address, and to no other. */
export const trustObjectStore = (): Promise<void> =>
  configure('object_store', { extra_ca_file: CA_FILE, allowed_networks: STORE_NETWORKS })

/** One request in the store's access log. */
export type Access = { readonly method: string; readonly path: string; readonly status: number }

/**
 * Returns the requests to the store since `sinceMs` (Unix time), in order; the store logs a request after the answer.
 */
export async function accessLog(sinceMs: number): Promise<readonly Access[]> {
  const since = `@${(sinceMs / 1000).toFixed(3)}`
  const lines = await sh('journalctl', `--unit=${unitOf('proxy')}`, '--output=cat', `--since=${since}`)
  return lines.split('\n').flatMap((line) => {
    // Client, remote, time, method, path with query, protocol, status (Swift, "Proxy Logging").
    const found = /^\S+ \S+ \S+ ([A-Z]+) (\S+) HTTP\S+ (\d{3}) /.exec(line)
    const [, method = '', path = '', status = ''] = found ?? []
    // Other lines are the proxy's own requests.
    return found === null || path.startsWith('/v1/')
      ? []
      : [{ method, path: decodeURIComponent(path), status: Number(status) }]
  })
}

const backends = Object.entries(BACKENDS) as [Backend, (typeof BACKENDS)[Backend]][]

function unitOf(name: string): string {
  return `object-store-${name}.service`
}

/** Makes a disk for the store, and an address that is neither loopback nor a guest's. */
async function makePlace(): Promise<void> {
  if (existsSync(join(DEVICES, DEVICE))) return
  mkdirSync(DEVICES, { recursive: true })
  await sh('truncate', '-s', DISK_SIZE, DISK)
  await sh('mkfs.xfs', '-q', '-f', DISK)
  await sh('mount', '-o', 'loop', DISK, DEVICES)
  mkdirSync(join(DEVICES, DEVICE))
  await sh('chown', '-R', 'swift', DEVICES)
  await sh('ip', 'address', 'replace', `${ADDRESS}/32`, 'dev', 'lo')
  const hosts = readFileSync('/etc/hosts', 'utf8')
  if (!hosts.includes(HOST)) writeFileSync('/etc/hosts', `${hosts.trimEnd()}\n${ADDRESS} ${HOST}\n`)
}

async function writeConfiguration(): Promise<void> {
  mkdirSync(CONFIG_FOLDER, { recursive: true })
  for (const [name, text] of configFiles()) writeFileSync(join(CONFIG_FOLDER, name), text)
  await sh('sh', '-c', certificateScript())
  await Promise.all(backends.map(async ([kind, { port }]) => makeRing(kind, port)))
}

/** Makes a ring with everything on one device (Swift, "Preparing the Ring"). */
async function makeRing(kind: Backend, port: number): Promise<void> {
  const builder = join(CONFIG_FOLDER, `${kind}.builder`)
  if (existsSync(join(CONFIG_FOLDER, `${kind}.ring.gz`))) return
  const ring = async (...args: readonly string[]) =>
    sh(PYTHON, '-m', 'swift.cli.ringbuilder', builder, ...args)
  await ring('create', '4', '1', '0')
  await ring('add', `r1z1-127.0.0.1:${port}/${DEVICE}`, '1')
  await ring('rebalance')
}

async function serve(name: string, module: string): Promise<void> {
  const unit = unitOf(name)
  const state = await sh('systemctl', 'show', '--value', '--property=ActiveState', unit)
  if (state.trim() === 'active') return
  await sh('systemctl', 'reset-failed', unit).catch(() => {})
  const config = join(CONFIG_FOLDER, `${name}.conf`)
  await sh('systemd-run', '--quiet', '--collect', `--unit=${unit}`, PYTHON, '-m', module, config)
}
