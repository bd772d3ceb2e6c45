/** Runs first in the executable: starts one of its two programs, with V8's code of it. */
import { createRequire } from 'node:module'
import { basename, dirname } from 'node:path'
import { getRawAsset } from 'node:sea'
import { Script } from 'node:vm'

type Program = (
  require: NodeJS.Require,
  module: { readonly exports: object },
  exports: object,
  filename: string,
  dirname: string,
) => void

const asset = (name: string): Buffer => Buffer.from(getRawAsset(name))

// Called as vmhostctl it is the client, under any other name the daemon.
const name = basename(process.argv0) === 'vmhostctl' ? 'vmhostctl' : 'vmhostd'
const script = new Script(asset(`${name}.js`).toString('latin1'), {
  filename: name,
  cachedData: asset(`${name}.code`),
})
// The build starts each program, and fails if it says this.
if (script.cachedDataRejected === true) process.emitWarning('V8 does not take the code of this program')
const module = { exports: {} }
const { execPath } = process
const run = script.runInThisContext() as Program
run(createRequire(execPath), module, module.exports, execPath, dirname(execPath))
