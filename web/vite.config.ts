import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vitest/config';

// The server sends these to browsers that take gzip, so it never compresses at run time.
function precompress(): Plugin {
  return {
    name: 'precompress',
    apply: 'build',
    closeBundle() {
      const dist = join(import.meta.dirname, 'dist');
      for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !/\.(js|css|svg)$/.test(entry.name)) continue;
        const file = join(entry.parentPath, entry.name);
        writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
      }
    },
  };
}

const server = process.env.SLUICE_URL ?? 'http://127.0.0.1:8080';

export default defineConfig({
  base: './', // the server decides where the console is mounted and writes it into <base>
  plugins: [react(), precompress()],
  build: { outDir: 'dist', target: 'es2022', sourcemap: false, chunkSizeWarningLimit: 1200 },
  server: { proxy: { '/api': server, '/v1': server } },
  test: { environment: 'jsdom', include: ['src/**/*.test.{ts,tsx}'], restoreMocks: true, testTimeout: 60_000, maxWorkers: '100%' },
});
