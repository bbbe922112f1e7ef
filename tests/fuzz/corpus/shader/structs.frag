#version 300 es
precision highp float;
uniform sampler2D u_image0;
in vec2 v_texCoord;
out vec4 c;
struct Ray { vec3 from; vec3 to; };
float shared_one = 1.0;
void turn(inout Ray ray, const float by, out int count) {
    for (count = 0; count < 3; count++) { if (count == 2) break; ray.to = ray.to.zxy * by; }
    do { shared_one *= 0.5; } while (shared_one > 0.2);
}
void main() {
    Ray rays[2];
    rays[0] = Ray(vec3(v_texCoord, 1), texture(u_image0, v_texCoord).rgb);
    rays[1] = rays[0];
    int count;
    turn(rays[1], 0.5, count);
    switch (count) { case 1: c = vec4(1); break; default: c = vec4(rays[count - 1].to, shared_one); }
}
