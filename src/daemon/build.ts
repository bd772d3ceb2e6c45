declare const __VMHOSTD_VERSION__: string | undefined
declare const __VMHOSTD_COMMIT__: string | undefined

/** Values of this build, which the bundler inserts; a run from source has none. */
export const build = {
  version: typeof __VMHOSTD_VERSION__ === 'string' ? __VMHOSTD_VERSION__ : '0.0.0-source',
  commit: typeof __VMHOSTD_COMMIT__ === 'string' ? __VMHOSTD_COMMIT__ : 'unknown',
} as const
